package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/test/testreply"
	"github.com/redlock-go/redlock/redlocktest"
)

// Servers can repeat at a login what the tool sent.
func TestNoOutputOfTheToolRepeatsAPassword(t *testing.T) {
	const secret, most = "Geheim#7 %x", 20
	nodes := redlocktest.Start(t, 2*most+1)
	for i, group := range testreply.Echoes(secret, most) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			urls := testreply.Beside(t, nodes.URLs(), group, secret)
			name, file := fmt.Sprint("name-", i), filepath.Join(t.TempDir(), "text")
			for _, args := range [][]string{
				{"doctor", "--for", "0s", "--timeout", "300ms"}, {"doctor", "--for", "0s", "--timeout", "300ms", "--json"}, {"run", "--wait", "5s", name, "--", "true"},
				{"inspect", name}, {"inspect", name, "--json"}, {"ls"}, {"ls", "--json"}, {"ask", name}, {"unlock", "--force", name},
				{"top"}, {"bench", "--for", "50ms"}, {"run", "--wait", "5s", "--transfer", file, name, "--", "true"}, {"resume", "--from", file, "--", "true"},
			} {
				var out bytes.Buffer
				var log lockedBuffer
				execute(append([]string{"--nodes", strings.Join(urls, ","), "--restart-guard", "0", "-v", "--node-timeout", "60ms"}, args...), &out, &log)
				requireSecret(t, out.String()+log.String(), secret, args)
			}
		})
	}
}

// requireSecret fails if the tool's output repeats a secret.
func requireSecret(t *testing.T, output, secret string, args []string) {
	t.Helper()
	for line := range strings.Lines(output) {
		at := max(strings.Index(line, secret), strings.Index(line, url.QueryEscape(secret)))
		if at >= 0 {
			assert.Fail(t, "the secret is shown", "%s: %s", args, line[max(0, at-300):min(len(line), at+100)])
			return
		}
	}
}

func TestTheToolDoesNotRepeatURLsInTheWrongPlace(t *testing.T) {
	const secret = "hunter2"
	for _, args := range [][]string{
		{"redis://:hunter2@host"}, {"doctor", "redis://me:hunter2@host"}, {"--ttl", "redis://me:hunter2@host", "doctor"}, {"doctor", "--ttl=redis://me:hunter2@host"},
		{"ls", "a", "redis://me:hunter2@host"}, {"completion", "redis://me:hunter2@host"}, {"--redis://me:hunter2@host"}, {"-redis://me:hunter2@host"},
		{"--nodes", "redis://me:hunter2@host:0", "doctor"}, {"--nodes", "redis://me:hunter2", "doctor"}, {"--restart-guard", "redis://me:hunter2@host", "ls"},
	} {
		var out bytes.Buffer
		var log lockedBuffer
		require.NotZero(t, execute(args, &out, &log))
		require.NotEmpty(t, log.String())
		require.NotContains(t, out.String()+log.String(), secret, "%q", args)
	}
}

func TestPasswordFileIsForURLsWithoutAPassword(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pass word"), []byte("hunter2\n"), 0o600))
	t.Chdir(dir)
	t.Setenv(passwordFileEnv, "pass word")
	urls, err := new(loginFlags).addTo([]string{"redis://me@a:1/2", "rediss://b?ca=ca.pem", "redis://me:own@c", "unix:///s?db=1&passwordfile=own"})
	require.NoError(t, err)
	assert.Equal(t, []string{
		"redis://me@a:1/2?passwordfile=pass+word", "rediss://b?ca=ca.pem&passwordfile=pass+word", "redis://me:own@c", "unix:///s?db=1&passwordfile=own",
	}, urls)
}

func TestToolRefusesAPasswordFileThatItCannotUse(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "password")
	require.NoError(t, os.WriteFile(file, []byte("hunter2\nhunter3\n"), 0o600))
	for want, args := range map[string][]string{
		"--password-file: the password file: stat " + dir + "/none: no such file or directory": {"--nodes", "redis://me@a", "--password-file", dir + "/none"},
		file + " has several lines":                           {"--nodes", "redis://me@a", "--password-file", file},
		"URL 1 of 1 is bad: it has a user without a password": {"--nodes", "redis://me@a"},
	} {
		var out bytes.Buffer
		var log lockedBuffer
		assert.Equal(t, codeConfig, execute(append(args, "doctor"), &out, &log))
		assert.Contains(t, log.String(), want)
		assert.NotContains(t, log.String(), "hunter")
	}
	require.NoError(t, os.WriteFile(file, []byte("hunter2\n"), 0o600))
	var log lockedBuffer
	assert.Equal(t, codeConfig, execute([]string{"--nodes", "redis://me:own@a", "--password-file", file, "ls"}, new(bytes.Buffer), &log))
	assert.Contains(t, log.String(), "--password-file: no node takes it, since all URLs have a password of their own")
}

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
