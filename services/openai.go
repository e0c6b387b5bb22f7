package services

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"example.com/awsretry"
)

// OpenAI is the API of OpenAI ("Error codes", "Rate limits" and "Streaming API
// responses", 2025-08). A quota that is used up is not waited for. An event stream
// that fails before its first content is sent again. The limits are those of a
// model: give each a partition with [awsretry.WithPartition].
var OpenAI = Service{
	Policy:     obeying("X-Should-Retry", openaiPolicy),
	RetryAfter: openaiDelay,
	Limits:     awsretry.ReadLimits,
	Peek:       peekAtStream(openaiEvent),
}

// AzureOpenAI is OpenAI in Azure AI Foundry ("Quotas and limits" and "REST API
// reference", 2025-08), where each deployment has limits, and a partition, of its
// own.
var AzureOpenAI = Service{
	Policy:     OpenAI.Policy,
	RetryAfter: OpenAI.RetryAfter,
	Limits:     OpenAI.Limits,
	Partition:  azurePartition,
	Peek:       OpenAI.Peek,
}

// An openaiError is the error of a response or of an event.
type openaiError struct{ Code, Type string }

// UnmarshalJSON reads the code as text, which may be null or a number.
func (e *openaiError) UnmarshalJSON(text []byte) error {
	var fields struct{ Code, Type any }
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	e.Code, _ = fields.Code.(string)
	e.Type, _ = fields.Type.(string)
	return nil
}

// class returns the class of an error, or Success if nothing is known of it.
func (e openaiError) class() awsretry.Class {
	for _, name := range []string{e.Code, e.Type} {
		switch name {
		case "insufficient_quota", "billing_hard_limit_reached", "billing_not_active":
			return awsretry.Permanent
		case "rate_limit_exceeded", "rate_limit_error", "too_many_requests", "slow_down", "engine_overloaded":
			return awsretry.Throttled
		case "server_error", "internal_error", "internal_server_error", "service_unavailable", "overloaded":
			return awsretry.Transient
		}
	}
	return awsretry.Success
}

func openaiPolicy(a *awsretry.Attempt) awsretry.Class {
	class := awsretry.DefaultPolicy(a)
	switch {
	case a.Response == nil:
	case a.Response.StatusCode < 400:
		if failed := firstFailure(a, openaiEvent); failed != awsretry.Success {
			return failed
		}
	case class == awsretry.Throttled:
		var said struct{ Error openaiError }
		if decode(a.Body, &said); said.Error.class() == awsretry.Permanent {
			return awsretry.Permanent
		}
	}
	return class
}

func openaiDelay(resp *http.Response, _ []byte) (time.Duration, bool) {
	return milliseconds(resp.Header, "Retry-After-Ms", "X-Ms-Retry-After-Ms")
}

// openaiEvent reads an event of Chat Completions or of the Responses API.
func openaiEvent(name string, data []byte) event {
	switch name {
	case "response.created", "response.queued", "response.in_progress": // which may repeat a long request
		return preamble
	}
	var said struct {
		Type     string
		Code     string
		Error    *openaiError
		Response struct{ Error *openaiError }
		Choices  *[]struct {
			FinishReason *string `json:"finish_reason"`
			Delta        map[string]json.RawMessage
			Text         string
		}
	}
	if json.Unmarshal(data, &said) != nil {
		return content
	}
	switch {
	case said.Error != nil:
		return failure(said.Error.class())
	case said.Type == "error":
		return failure(openaiError{Code: said.Code}.class())
	case said.Type == "response.failed" && said.Response.Error != nil:
		return failure(said.Response.Error.class())
	case said.Type == "response.created", said.Type == "response.queued", said.Type == "response.in_progress":
		return preamble
	case said.Type != "" || said.Choices == nil:
		return content
	}
	for _, c := range *said.Choices {
		if c.FinishReason != nil || c.Text != "" {
			return content
		}
		for name, value := range c.Delta {
			if name != "role" && string(value) != `""` && string(value) != "null" {
				return content
			}
		}
	}
	return preamble
}

func azurePartition(req *http.Request) string {
	if _, rest, ok := strings.Cut(req.URL.Path, "/deployments/"); ok {
		deployment, _, _ := strings.Cut(rest, "/")
		return host(req) + " " + deployment
	}
	return host(req)
}
