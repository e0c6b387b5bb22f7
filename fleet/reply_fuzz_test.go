package fleet

import (
	"context"
	"strings"
	"testing"
)

type fixedReply []string

func (r fixedReply) Eval(context.Context, string, []string, []string) ([]string, error) {
	return r, nil
}

// FuzzReply takes each line for a value of a reply. What is accepted is within
// bounds.
func FuzzReply(f *testing.F) {
	f.Add("epoch\n1\n1\n100\n20\n2\n1\n0\n10\n490\n60000\n1\n1\n1\n1\n1\n1\n1\n3\n0.5\n1\n{\"remaining\":3}\n10")
	f.Add("\n1e15\n1e15\n1e9\n0\n1e6\n1\n9e12\n0\n2147483647\n86400000\n1e308\n0\n0\n0\n0\n0x1p-2\n0\n0\n2\n1\n\n0")
	f.Add("epoch\nnan\ninf\n-1\n-0\n1e309\n2\n\n1.5\n1_0\n+1\n0\n0\n0\n0\n0\n0\n2\n-1\n3\n1\nx\n1")
	f.Fuzz(func(t *testing.T, text string) {
		fl, err := New(fixedReply(strings.Split(text, "\n")), Config{})
		if err != nil {
			t.Fatal(err)
		}
		r := &request{wanted: 30, asked: 50}
		got, err := fl.renew(t.Context(), "key", r)
		if err != nil {
			if len(err.Error()) > 500 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		finite := func(x, most float64) bool { return x >= 0 && x <= most }
		switch {
		case got.tokens < 0 || got.tokens > r.asked, got.left < 0, got.members < 0 || got.members > mostMembers,
			got.gate < 0 || got.gate > longestGate, got.now < 0, got.cut < 0,
			!finite(got.share, got.rate*(1+rounding)), !finite(got.rate, mostRate), !finite(got.window, 1e15),
			!finite(got.part, 1), got.place < 0 || got.place > mostMembers, !finite(got.level, noLevel),
			!finite(got.totals.accepted, mostTotal), !finite(got.totals.tripsOf, mostTotal):
			t.Errorf("%q is accepted: %+v", text, got)
		}
	})
}
