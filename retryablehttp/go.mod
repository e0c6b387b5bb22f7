module example.com/awsretry/retryablehttp

go 1.25.0

replace example.com/awsretry => ../

require (
	example.com/awsretry v0.0.0-00010101000000-000000000000
	github.com/hashicorp/go-cleanhttp v0.5.2
)

require (
	github.com/fxamacker/cbor/v2 v2.9.6 // indirect
	github.com/x448/float16 v0.8.4 // indirect
	gopkg.in/ini.v1 v1.67.3 // indirect
)
