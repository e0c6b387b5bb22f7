package delivery

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// reads parses text, and what the policy is marshaled to, which must be the same.
// It returns nil for text that is refused.
func reads[P any](t *testing.T, parse func([]byte) (*P, error), text []byte) *P {
	p, err := parse(text)
	if (p == nil) == (err == nil) {
		t.Fatalf("got %v, %v", p, err)
	}
	if err != nil {
		return nil
	}
	again := marshal(t, p)
	q, err := parse([]byte(again))
	if err != nil {
		t.Fatalf("%s became %s: %v", text, again, err)
	}
	if diff := cmp.Diff(p, q, cmp.AllowUnexported(RetryPolicy{})); diff != "" {
		t.Fatalf("%s became %s:\n%s", text, again, diff)
	}
	return p
}

func marshal(t *testing.T, policy any) string {
	t.Helper()
	text, err := json.Marshal(policy)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.json")
	for _, file := range files {
		f.Add([]byte(readFile(f, file)))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if topic := reads(t, ParseTopic, text); topic != nil {
			if err := Effective(topic, nil).ValidateRaw(); err != nil {
				t.Fatalf("%s: its effective policy: %v", text, err)
			}
		}
		p := reads(t, Parse, text)
		if p == nil {
			return
		}
		n, total := 0, time.Duration(0)
		for d := range p.Delays() {
			if n++; d < 0 || d > maxDelayTarget*time.Second {
				t.Fatalf("%s: a delay of %v", text, d)
			}
			total += d
		}
		if n > maxNumRetries || total > maxTotal+time.Microsecond {
			t.Fatalf("%s: %d retries in %v", text, n, total)
		}
	})
}

func readFile(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Parse and ParseTopic read what Amazon SNS returns for the attribute
// EffectiveDeliveryPolicy, and a file with a byte order mark. A policy marshals
// to the JSON that it was read from, apart from what is ignored.
func TestPoliciesAsAmazonReturnsThem(t *testing.T) {
	const (
		retry = `{"minDelayTarget":20,"maxDelayTarget":20,"numRetries":7,"numNoDelayRetries":0,` +
			`"numMinDelayRetries":0,"numMaxDelayRetries":0,"backoffFunction":"linear"}`
		content = `{"headerContentType":"text/plain; charset=UTF-8"}`
	)
	for _, tt := range []struct{ name, text, want string }{ // without want: text
		{"a subscription's",
			`{"healthyRetryPolicy":` + retry + `,"sicklyRetryPolicy":null,"throttlePolicy":null,"requestPolicy":` +
				content + `,"guaranteed":false}`,
			`{"healthyRetryPolicy":` + retry + `,"requestPolicy":` + content + `}`},
		{"nothing but null",
			byteOrderMark + `{"healthyRetryPolicy":null,"throttlePolicy":{"maxReceivesPerSecond":null},` +
				`"requestPolicy":null}`, `{"throttlePolicy":{}}`},
		{"empty blocks", `{"healthyRetryPolicy":{},"throttlePolicy":{},"requestPolicy":{}}`, ""},
		{"a topic's",
			byteOrderMark + `{"http":{"defaultHealthyRetryPolicy":` + retry + `,"defaultSicklyRetryPolicy":null,` +
				`"disableSubscriptionOverrides":false,"defaultThrottlePolicy":null,"defaultRequestPolicy":` +
				content + `}}`,
			`{"http":{"defaultHealthyRetryPolicy":` + retry + `,"disableSubscriptionOverrides":false,` +
				`"defaultRequestPolicy":` + content + `}}`},
		{"a topic's file", readFile(t, "testdata/topic.json"), ""},
		{"a topic's empty block", `{"http":{}}`, ""},
		{"a topic's without a policy", `{"http":null}`, `{}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got string
			if strings.HasPrefix(tt.name, "a topic's") {
				topic, err := ParseTopic([]byte(tt.text))
				if err != nil {
					t.Fatal(err)
				}
				got = marshal(t, topic)
			} else {
				got = marshal(t, parse(t, tt.text))
			}
			want := bytes.NewBufferString(tt.want)
			if tt.want == "" {
				json.Compact(want, []byte(tt.text))
			}
			if diff := cmp.Diff(want.String(), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPolicyInsideAnotherDocumentIsReadAsStrictly(t *testing.T) {
	var doc struct {
		Subscription Policy
		Topic        TopicPolicy
	}
	const good = `{"Subscription":{"throttlePolicy":{"maxReceivesPerSecond":5}},"Topic":{"http":{}}}`
	for _, text := range []string{good, `{"Subscription": null, "Topic": null}`} { // null changes nothing
		if err := json.Unmarshal([]byte(text), &doc); err != nil || marshal(t, doc) != good {
			t.Errorf("%s: got %s, %v", text, marshal(t, doc), err)
		}
	}
	for bad, want := range map[string]string{
		`{"Subscription": {"healthyRetryPolicy": {"numRetries": 101}}}`: "numRetries is 101",
		`{"Topic": {"https": {}}}`:                                      "https",
	} {
		if err := json.Unmarshal([]byte(bad), &doc); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", bad, err, want)
		}
	}
}
