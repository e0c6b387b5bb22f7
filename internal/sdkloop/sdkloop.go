// Package sdkloop lets package awssdk use the decisions of a Transport, which
// are not part of its API. Package awsretry sets the variables.
package sdkloop

import (
	"net/http"
	"time"
)

var (
	// New begins a call whose attempts something other than the
	// *awsretry.Transport sends. Package awssdk has the interface of the loop
	// that it returns; loop.go of package awsretry describes the methods. req
	// describes the call to the hooks: its context is the caller's, and its
	// method, URL and headers are those of the call. Its body is not used.
	//
	// If detached is set, the loop is for one attempt of a call whose other
	// attempts are not known: the observers are not called, the number of
	// attempts is not limited, and an attempt whose wait is over is treated as sent.
	//
	// The error is that of Validate, or an *awsretry.Error if the call may not
	// begin.
	New func(transport any, req *http.Request, detached bool) (loop any, err error)

	// Delay returns the delay that would follow an awsretry.Attempt, for a
	// caller that has no loop at that point. It uses the Number, Class, Response
	// and Request of the attempt. The error is that of Validate.
	Delay func(transport, attempt any) (time.Duration, error)
)
