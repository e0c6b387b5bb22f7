package services

import (
	"encoding/json"

	"example.com/awsretry"
)

// Anthropic is the API of Anthropic ("Errors", "Rate limits" and "Streaming
// Messages", 2025-08). If an event stream fails before its first content, the
// request is retried.
var Anthropic = Service{
	Policy:   obeying("X-Should-Retry", anthropicPolicy),
	Limits:   awsretry.ReadLimits,
	Cost:     anthropicCost,
	Peek:     wholeJSON(peekAtStream(anthropicEvent)),
	harmless: posts("/v1/messages", "/v1/messages/count_tokens", "/v1/complete"),
}

func anthropicPolicy(a *awsretry.Attempt) awsretry.Class {
	if a.Response != nil && a.Response.StatusCode < 400 {
		if failed := firstFailure(a, anthropicEvent); failed != awsretry.Success {
			return failed
		}
	}
	return anyServerError(a) // throttling includes 529
}

func anthropicEvent(name string, data []byte) event {
	switch name {
	case "message_start", "content_block_start", "ping":
		return preamble
	}
	var said struct {
		Type  string
		Error struct{ Type string }
	}
	if json.Unmarshal(data, &said) != nil {
		return content
	}
	switch said.Type {
	case "message_start", "content_block_start", "ping":
		return preamble
	case "error":
		switch said.Error.Type {
		case "overloaded_error", "rate_limit_error":
			return failure(awsretry.Throttled)
		case "api_error", "timeout_error":
			return failure(awsretry.Transient)
		}
		return failure(awsretry.Success)
	}
	return content
}
