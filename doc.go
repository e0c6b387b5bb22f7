// Package awsretry gives any HTTP client the retry behaviour of the AWS SDKs.
//
// A [Transport] is an http.RoundTripper. It replays request bodies, classifies answers by status and by the AWS error code in
// them, draws tokens from a retry token bucket before each retry, sleeps a jittered backoff, and in adaptive mode
// paces all attempts with a rate limiter. The rules are those of the AWS SDKs and Tools Reference Guide, "Retry
// behavior"; [Load] reads retry_mode and max_attempts from the environment and the shared AWS config files.
//
//	client := &http.Client{Transport: &awsretry.Transport{}}
//
// Package delivery delivers by Amazon SNS delivery policies, package poll waits for an asynchronous operation.
package awsretry
