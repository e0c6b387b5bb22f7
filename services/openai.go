package services

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"example.com/awsretry"
)

// OpenAI is the API of OpenAI ("Error codes", "Rate limits" and "Streaming API
// responses", 2025-08). An exhausted quota is permanent, and so is a 429 for a
// request that alone exceeds the limit. If an event stream fails before its first
// content, the request is retried. Each model has its own limits: give it a
// partition with [awsretry.WithPartition].
var OpenAI = Service{
	Policy:   openaiPolicy,
	Limits:   awsretry.ReadLimits,
	Cost:     openaiCost,
	Peek:     wholeJSON(peekAtStream(openaiEvent)),
	harmless: posts("/completions", "/responses", "/embeddings", "/moderations"),
}

// AzureOpenAI is OpenAI in Azure AI Foundry ("Quotas and limits" and "REST API
// reference", 2025-08). Each deployment has its own limits and its own partition.
var AzureOpenAI = Service{
	Policy:    OpenAI.Policy,
	Limits:    OpenAI.Limits,
	Partition: azurePartition,
	Peek:      OpenAI.Peek,
	harmless:  OpenAI.harmless,
}

// An openaiError is the error in a response or in an event.
type openaiError struct{ Code, Type, Message string }

// UnmarshalJSON ignores fields that are null or numbers, as Code may be.
func (e *openaiError) UnmarshalJSON(text []byte) error {
	var fields struct{ Code, Type, Message any }
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	e.Code, _ = fields.Code.(string)
	e.Type, _ = fields.Type.(string)
	e.Message, _ = fields.Message.(string)
	return nil
}

var openaiSizes = regexp.MustCompile(`Limit (\d+), Requested (\d+)`)

// tooLarge reports whether the request alone exceeds the limit. The message has the
// same beginning if the request only exceeds what is left.
func (e openaiError) tooLarge() bool {
	sizes := openaiSizes.FindStringSubmatch(e.Message)
	if sizes == nil || !strings.HasPrefix(e.Message, "Request too large") {
		return false
	}
	limit, err1 := strconv.ParseInt(sizes[1], 10, 64)
	requested, err2 := strconv.ParseInt(sizes[2], 10, 64)
	return err1 == nil && err2 == nil && requested > limit
}

// class returns the class of an error, or Success if the error is unknown.
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
	if a.Response != nil && a.Response.StatusCode == http.StatusTooManyRequests && openaiErrorOf(a).tooLarge() {
		return awsretry.Permanent // regardless of X-Should-Retry
	}
	return openaiObeying(a)
}

func openaiErrorOf(a *awsretry.Attempt) openaiError {
	var said struct{ Error openaiError }
	decode(a.Body, &said)
	return said.Error
}

var openaiObeying = obeying("X-Should-Retry", openaiClass)

func openaiClass(a *awsretry.Attempt) awsretry.Class {
	class := anyServerError(a)
	switch {
	case a.Response == nil:
	case a.Response.StatusCode < 400:
		if failed := firstFailure(a, openaiEvent); failed != awsretry.Success {
			return failed
		}
	case class == awsretry.Throttled:
		if openaiErrorOf(a).class() == awsretry.Permanent {
			return awsretry.Permanent
		}
	}
	return class
}

// openaiEvent classifies an event of Chat Completions or of the Responses API.
func openaiEvent(name string, data []byte) event {
	switch name {
	case "response.created", "response.queued", "response.in_progress": // may repeat a long request
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
