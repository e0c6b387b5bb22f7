module example.com/awsretry/bench

go 1.25.0

require (
	example.com/awsretry v0.0.0
	github.com/PuerkitoBio/rehttp v1.4.0
	github.com/aws/aws-sdk-go-v2 v1.47.5
	github.com/aws/smithy-go v1.28.8
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/hashicorp/go-retryablehttp v0.7.8
)

require (
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/fxamacker/cbor/v2 v2.9.6 // indirect
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	github.com/influxdata/tdigest v0.0.1 // indirect
	github.com/x448/float16 v0.8.4 // indirect
	gopkg.in/ini.v1 v1.67.3 // indirect
)

replace example.com/awsretry => ../
