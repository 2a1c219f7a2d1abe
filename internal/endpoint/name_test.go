package endpoint

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithoutUserKeepsTheAddress(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "10.0.0.1:6379": "10.0.0.1:6379", "locks@zone-a": "locks@zone-a", "/run/a:b@c.sock": "/run/a:b@c.sock", "unix:///run/a@b": "unix:///run/a@b",
		"redis://host:1/2":              "redis://host:1/2",
		"redis://me:hunter2@host:1":     "redis://…@host:1",
		"rediss://:hun/t@er 2@host":     "rediss://…@host",
		"unix://me:hunter2@/run/redis":  "unix://…@/run/redis",
		"me:hunter2@host:6379":          "…@host:6379",
		"--nodes=redis://:hunter2@host": "--nodes=redis://…@host",
	} {
		require.Equal(t, want, WithoutUser(text))
	}
}
