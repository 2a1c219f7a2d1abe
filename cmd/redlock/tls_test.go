package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTLSFlagsAreForURLsThatDoNotSayIt(t *testing.T) {
	flags := tlsFlags{ca: "/etc/our ca.pem", cert: "c.pem", key: "k.pem", serverName: "redis"}
	urls, err := flags.addTo([]string{
		"rediss://me:p%40ss@a:1/2",
		"valkeys://b?ca=other.pem&cert=own.pem&key=own.key",
		"redis://c",
		"unix:///run/redis.sock?db=1",
	})
	require.NoError(t, err)
	assert.Equal(t, []string{
		"rediss://me:p%40ss@a:1/2?ca=%2Fetc%2Four+ca.pem&cert=c.pem&key=k.pem&servername=redis",
		"valkeys://b?ca=other.pem&cert=own.pem&key=own.key&servername=redis",
		"redis://c",
		"unix:///run/redis.sock?db=1",
	}, urls)
}

func TestToolRefusesTLSFlagsThatDoNothing(t *testing.T) {
	for want, args := range map[string][]string{
		"no node has one":                         {"--nodes", "redis://a", "--tls-ca", "ca.pem"},
		"one is missing":                          {"--nodes", "rediss://a", "--tls-cert", "c.pem"},
		"cannot read the certificate authorities": {"--nodes", "rediss://a", "--tls-ca", "/nowhere"},
	} {
		var out bytes.Buffer
		var log lockedBuffer
		assert.Equal(t, codeConfig, execute(append(args, "ls"), &out, &log))
		assert.Contains(t, log.String(), want)
	}
}
