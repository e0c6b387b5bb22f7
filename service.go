package awsretry

import (
	"fmt"
	"net/http"
	"reflect"

	"example.com/awsretry/internal/retrier"
)

// A service is what a Service of package services knows of an API. It is apart from
// the fields of the Transport, which are what the program decides, so that either
// may be set first. The zero service is none.
type service struct {
	policy    Policy // nil means the rules of the AWS SDKs
	otherwise Policy // of a Transport without one
	limits    func(*http.Response) []Limit
	cost      func(req *http.Request, limit string) float64
	applied   int // how many services were applied; the first one counts
}

// ApplyService makes policy what DefaultPolicy returns, also in IdempotentOnly, and
// limits and cost RateLimit.Limits and RateLimit.Cost in Adaptive mode unless those
// are set. otherwise is the Policy unless one is set. It is for package services.
func (t *Transport) ApplyService(
	_ retrier.Seal, policy, otherwise Policy, limits func(*http.Response) []Limit, cost func(*http.Request, string) float64,
) {
	if t.service.applied == 0 {
		t.service = service{policy: policy, otherwise: otherwise, limits: limits, cost: cost}
	}
	t.service.applied++
}

// classify returns the class of an attempt by the policy of a service, or by the
// rules of the AWS SDKs if that is nil.
func (a *Attempt) classify(servicePolicy Policy) Class {
	if servicePolicy == nil {
		return sdkClass(a)
	}
	plain := *a // a stays on the stack
	plain.ServicePolicy = nil
	return servicePolicy(&plain)
}

// validate returns an error if more than one service was applied.
func (s *service) validate() error {
	if s.applied > 1 {
		return fmt.Errorf("Policy is that of %d services; there must be one: "+
			"call Service.Apply once for each Transport", s.applied)
	}
	return nil
}

// policy returns Policy, or that of a Transport with a service.
func (t *Transport) policy() Policy {
	if t.Policy == nil {
		return t.service.otherwise
	}
	return t.Policy
}

// limits returns RateLimit.Limits, or that of the service.
func (t *Transport) limits() func(*http.Response) []Limit {
	if t.RateLimit.Limits == nil {
		return t.service.limits
	}
	return t.RateLimit.Limits
}

// cost returns RateLimit.Cost, or that of the service.
func (t *Transport) cost() func(*http.Request, string) float64 {
	if t.RateLimit.Cost == nil {
		return t.service.cost
	}
	return t.RateLimit.Cost
}

// ownLimits reports whether RateLimit.Limits is set, and not to that of the service.
func (t *Transport) ownLimits() bool {
	set := t.RateLimit.Limits
	return set != nil && reflect.ValueOf(set).Pointer() != reflect.ValueOf(t.service.limits).Pointer()
}
