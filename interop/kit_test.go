package interop

import (
	"io"
	"net/http"
	"sync/atomic"
)

// hang does not respond before the client goes away.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// echo responds with the body of the request, and with 422 if that breaks off.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusUnprocessableEntity)
	}
	w.Write(body)
}

// failOnce responds to the first request with 503, without reading its body.
func failOnce(next http.HandlerFunc) http.HandlerFunc {
	var failed atomic.Bool
	return func(w http.ResponseWriter, r *http.Request) {
		if !failed.Swap(true) {
			http.Error(w, `{"code": "busy"}`, http.StatusServiceUnavailable)
			return
		}
		next(w, r)
	}
}
