module example.com/awsretry/fleet

go 1.25.0

replace example.com/awsretry => ../

require (
	example.com/awsretry v0.0.0-00010101000000-000000000000
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/valkey-io/valkey-go v1.0.79
)

require (
	github.com/fxamacker/cbor/v2 v2.9.6 // indirect
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	github.com/x448/float16 v0.8.4 // indirect
	github.com/yuin/gopher-lua v1.1.2 // indirect
	golang.org/x/sys v0.47.0 // indirect
	gopkg.in/ini.v1 v1.67.3 // indirect
)
