module github.com/redlock-go/redlock/adapters/redlockmigrate

go 1.25.0

require (
	github.com/golang-migrate/migrate/v4 v4.16.1
	github.com/pressly/goose/v3 v3.26.0
	github.com/redlock-go/redlock v0.0.0-20261201022115-1ffb4e586f5f
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/gomodule/redigo v1.9.3 // indirect
	github.com/hashicorp/errwrap v1.1.0 // indirect
	github.com/hashicorp/go-multierror v1.1.1 // indirect
	github.com/mfridman/interpolate v0.0.2 // indirect
	github.com/sethvargo/go-retry v0.3.0 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/atomic v1.7.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sync v0.16.0 // indirect
	golang.org/x/sys v0.45.0 // indirect
)

replace github.com/redlock-go/redlock => ../../
