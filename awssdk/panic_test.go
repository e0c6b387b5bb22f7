package awssdk

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"example.com/awsretry"
)

// A panic below a call or in one of its hooks leaves no partition in use, draws
// no token, and is not observed as a success.
func TestPanics(t *testing.T) {
	throw := func() { panic("of the test") }
	below := func(attempt int) func(*client, *Config) {
		return func(c *client, _ *Config) {
			c.inside = func(context.Context) error {
				if len(c.sent) == attempt {
					throw()
				}
				return nil
			}
		}
	}
	for _, tt := range []struct {
		name string
		set  func(*client, *Config)
	}{
		{"Observe, of a success", func(_ *client, config *Config) {
			config.Observe = func(a awsretry.Attempt) {
				if a.Class == awsretry.Success {
					throw()
				}
			}
		}},
		{"Policy", func(_ *client, config *Config) {
			config.Policy = func(*awsretry.Attempt) awsretry.Class { throw(); return 0 }
		}},
		{"below the retry", below(2)},
		{"below, with an initial cost", func(c *client, config *Config) {
			config.Quota.InitialCost = 7
			below(1)(c, config)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config := Config{Mode: awsretry.Adaptive, MaxPartitions: 2, Observe: func(a awsretry.Attempt) {
					if a.Class == awsretry.Success {
						t.Errorf("observed %q", record(a))
					}
				}}
				c := &client{operation: "GetObject", apply: true}
				tt.set(c, &config)
				r := mustRetryer(t, config)
				for i := range 50 {
					c.service = fmt.Sprint("service ", i)
					func() {
						defer func() {
							if recover() == nil {
								t.Error("no panic")
							}
						}()
						c.call(t.Context(), r, step{status: 500}, step{status: 200})
					}()
				}
				n := 0
				for name, state := range r.Partitions() {
					if n++; state.Tokens != 500 {
						t.Errorf("%q has %d tokens, want 500", name, state.Tokens)
					}
				}
				if n > 2 {
					t.Errorf("%d partitions, want 2", n)
				}
			})
		})
	}
}
