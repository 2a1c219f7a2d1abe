package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/redlocktest"
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

// shortLived returns a certificate for this machine that ends within a day, and a file that has it.
func shortLived(t *testing.T) (pair tls.Certificate, file string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(12 * time.Hour),
		IPAddresses: []net.IP{{127, 0, 0, 1}}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	require.NoError(t, err)
	file = filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, file
}

func TestDoctorWarnsOfACertificateThatEndsSoon(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	pair, ca := shortLived(t)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	require.NoError(t, err)
	linkFrom(t, listener, nodes.URLs()[0])
	var out bytes.Buffer
	var log lockedBuffer
	execute([]string{"--nodes", "rediss://" + listener.Addr().String() + "?ca=" + ca, "doctor", "--for", "0s"}, &out, &log)
	assert.Regexp(t, `WARNING  node 0 \(.*\): its certificate, or one of its issuers', ends in 0 days, at `, out.String(), log.String())
}
