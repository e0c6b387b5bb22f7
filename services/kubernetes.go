package services

import (
	"net/http"

	"example.com/awsretry"
)

// Kubernetes is the API server of Kubernetes ("API Priority and Fairness" and
// "API-initiated Eviction", version 1.34, 2025-08). A 429 with Retry-After is
// throttling. A 429 without it means that a PodDisruptionBudget forbids an eviction,
// and an immediate retry would fail too.
var Kubernetes = Service{Policy: kubernetesPolicy, Peek: awsretry.WholeDocuments}

func kubernetesPolicy(a *awsretry.Attempt) awsretry.Class {
	if a.Response != nil && a.Response.StatusCode == http.StatusTooManyRequests && a.Response.Header.Get("Retry-After") == "" {
		return awsretry.Permanent
	}
	return awsretry.DefaultPolicy(a)
}
