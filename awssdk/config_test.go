package awssdk

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/admission"
)

type noStore struct{}

func (noStore) Join(*admission.Share)        {}
func (noStore) FirstRate() float64           { return 0 }
func (noStore) Validate(awsretry.Mode) error { return nil }

// Each field of a Transport is in Config and reaches the Retryer's Transport, or is
// about what the SDK does itself.
func TestConfigHasTheFieldsOfATransport(t *testing.T) {
	t.Parallel()
	sdks := []string{
		"Base", "AttemptTimeout", "StallTimeout", "MaxBodyBuffer", "Prepare", "SDKHeaders", "RetryAfter", "Peek", "IdempotencyKey",
		"NestedRetries", "KeepConnections", "Resume",
	}
	r, err := NewRetryer(Config{
		Mode: awsretry.Adaptive, Revision: awsretry.Revision2026, MaxAttempts: 2, Policy: awsretry.DefaultPolicy,
		Backoff: awsretry.Decorrelated{}, MaxRetryAfter: time.Second, RetryAfterSpread: time.Second, ShareRetryAfter: true,
		Quota: awsretry.QuotaConfig{Capacity: 50}, RateLimit: awsretry.RateLimitConfig{Beta: .5},
		Partition: func(context.Context) string { return "" }, MaxPartitions: 2, Shared: noStore{},
		LongPoll: func(context.Context) bool { return true }, Observe: func(awsretry.Attempt) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	made := reflect.ValueOf(r.transport).Elem()
	for _, field := range reflect.VisibleFields(made.Type()) {
		if !field.IsExported() || len(field.Index) > 1 {
			continue
		}
		_, has := reflect.TypeFor[Config]().FieldByName(field.Name)
		switch set := !made.FieldByIndex(field.Index).IsZero(); {
		case has == slices.Contains(sdks, field.Name):
			t.Errorf("%s: is it in Config, or has it no effect here?", field.Name)
		case has != set:
			t.Errorf("%s is in Config: %v, and set: %v", field.Name, has, set)
		}
	}
	for _, name := range sdks {
		if _, ok := made.Type().FieldByName(name); !ok {
			t.Errorf("a Transport has no field %s", name)
		}
	}
}
