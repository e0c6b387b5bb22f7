package main

import (
	"time"

	"example.com/awsretry"
	"example.com/awsretry/awssdk"
	"github.com/aws/aws-sdk-go-v2/aws"
)

const (
	sdkStandardName    = "aws-sdk-go-v2 standard"
	awssdkName         = "awssdk adaptive"
	awssdkScaledName   = "awssdk ScaledPacing"
	awssdkStandardName = "awssdk standard"
)

// retryers are clients of the AWS SDK: with its own retryers, and with those of
// package awssdk. The adaptive ones run on the wall clock too.
var retryers = append(
	named(sdkStandardName, sdkAdaptiveName),
	library{name: awssdkStandardName, over: sdk(withAwssdk(awssdk.Config{}), fast)},
	onBothClocks(awssdkName, withAwssdk(awssdkAdaptive)),
	onBothClocks(awssdkScaledName, withAwssdk(awssdkScaled)),
)

var (
	awssdkAdaptive = awssdk.Config{Mode: awsretry.Adaptive}
	awssdkScaled   = awssdk.Config{
		Mode:      awsretry.Adaptive,
		RateLimit: awsretry.RateLimitConfig{Pacing: awsretry.ScaledPacing},
	}
)

func onBothClocks(name string, configure func(*aws.Config)) library {
	return library{name: name, over: sdk(configure, fast), wall: sdk(configure, fast)}
}

// withAwssdk makes the SDK retry by package awssdk.
func withAwssdk(c awssdk.Config) func(*aws.Config) {
	return func(cfg *aws.Config) {
		r, err := awssdk.NewRetryer(c)
		if err != nil {
			panic(err) // the settings are constants
		}
		r.Apply(cfg)
	}
}

// relapsing is an outage after which some responses are still errors.
func relapsing(clients int, outage, after time.Duration) storm {
	return storm{
		name:    "The service answers 503 at once, and then 500 to 5 % of the requests",
		clients: clients, callers: 1, rate: 5, headroom: 1.2, errors: 0.05,
		before: 10 * time.Second, outage: outage, after: after, tail: 20 * time.Second,
	}
}
