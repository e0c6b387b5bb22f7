package services

import (
	"net/http"

	"example.com/awsretry"
)

// Kubernetes is the API server of Kubernetes ("API Priority and Fairness" and
// "API-initiated Eviction", 1.34). A 429 with Retry-After is throttling. One
// without it says that a PodDisruptionBudget forbids an eviction, which another
// request in a second does not change.
var Kubernetes = Service{Policy: kubernetesPolicy}

func kubernetesPolicy(a *awsretry.Attempt) awsretry.Class {
	if a.Response != nil && a.Response.StatusCode == http.StatusTooManyRequests && a.Response.Header.Get("Retry-After") == "" {
		return awsretry.Permanent
	}
	return awsretry.DefaultPolicy(a)
}
