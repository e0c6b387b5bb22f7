package delivery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// An http.Client does not make a delivery of a redirect, whether or not its
// CheckRedirect is set.
func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{302, 307} {
		for name, checks := range map[string]bool{"by default": false, "with CheckRedirect": true} {
			run(t, fmt.Sprintf("%d/%s", status, name), func(t *testing.T) {
				end, deadLetters := responding(status), 0
				end.header = http.Header{"Location": {"/new"}}
				client := &http.Client{Transport: &Transport{
					Base:       end,
					DeadLetter: func(context.Context, DeadLetter) error { deadLetters++; return nil },
				}}
				if checks {
					client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
				}
				resp, err := client.Post("http://a.example/old", "text/plain", strings.NewReader("hello"))
				switch {
				case !checks:
					if !errors.Is(err, ErrRedirect) || !strings.Contains(err.Error(), fmt.Sprint(status)) ||
						strings.Count(err.Error(), "delivery: ") != 1 {
						t.Errorf("got %v", err)
					}
				case err != nil:
					t.Fatal(err)
				default:
					if resp.Body.Close(); resp.StatusCode != status {
						t.Errorf("got %d", resp.StatusCode)
					}
				}
				if len(end.asked) != 1 || deadLetters != 1 {
					t.Errorf("%d requests and %d dead letters; want one each", len(end.asked), deadLetters)
				}
			})
		}
	}
}
