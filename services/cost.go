package services

import (
	"encoding/json"
	"io"
	"net/http"

	"example.com/awsretry/internal/replay"
)

// longestBody limits how much of a request body is read for its cost.
const longestBody = 1 << 20

// mostTokens returns the number of tokens that a request for a language model allows
// in its response, or 0 if its body does not say, is longer than longestBody or is not
// in memory: another body's GetBody may rewind the one reader that there is.
func mostTokens(req *http.Request) float64 {
	if req.GetBody == nil || req.ContentLength <= 0 || req.ContentLength > longestBody || !replay.InMemory(req.Body) {
		return 0
	}
	body, err := req.GetBody()
	if err != nil {
		return 0
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, longestBody))
	if err != nil || !json.Valid(text) {
		return 0
	}
	var said struct {
		MaxTokens           float64 `json:"max_tokens"`
		MaxCompletionTokens float64 `json:"max_completion_tokens"`
		MaxOutputTokens     float64 `json:"max_output_tokens"`
	}
	decode(text, &said)
	return max(said.MaxTokens, said.MaxCompletionTokens, said.MaxOutputTokens, 0)
}

// anthropicRounding is the unit to which Anthropic rounds the tokens that remain.
const anthropicRounding = 1000

// anthropicCost returns the most tokens of a response, if they are too few to show in
// what remains. A longer limit says little: a response is charged for what it has, and
// most are far from it.
func anthropicCost(req *http.Request, limit string) float64 {
	if limit == "output-tokens" {
		if most := mostTokens(req); most <= anthropicRounding {
			return most
		}
	}
	return 0
}

// openaiCost returns what a request takes from a limit of tokens: the most tokens of
// the response or an estimate of those in the request, whichever is more. OpenAI does
// not say how it estimates, so the cost is unknown if a quarter of the bytes is more.
func openaiCost(req *http.Request, limit string) float64 {
	if limit == "tokens" {
		if most := mostTokens(req); most >= float64(req.ContentLength)/4 {
			return most
		}
	}
	return 0
}
