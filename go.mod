module example.com/awsretry

go 1.25.0

require (
	github.com/fxamacker/cbor/v2 v2.9.6
	github.com/google/go-cmp v0.7.0
	github.com/hashicorp/go-cleanhttp v0.5.2
	gopkg.in/ini.v1 v1.67.3
)

require github.com/x448/float16 v0.8.4 // indirect
