package programs

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/adapters/redlockcertmagic"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/test/long"
	"github.com/redlock-go/redlock/internal/test/testclient"
)

// issueLock is the redlock name of the lock under which CertMagic gets the certificate.
const issueLock = "certmagic:issue_cert_" + domain

// unlocked is a storage without locks, as some are.
type unlocked struct{ certmagic.Storage }

func (unlocked) Lock(context.Context, string) error   { return nil }
func (unlocked) Unlock(context.Context, string) error { return nil }

// serveCertificates is the job of an instance of a web server: it gets the certificate and
// serves it until the test ends. args are the kind of lock, the masters, the directory of the
// storage, and the file of the authority.
func serveCertificates(args []string, test *parent) error {
	lock, urls, dir, authority := args[0], strings.Split(args[1], ","), args[2], args[3]
	client, err := testclient.OpenInProcess(context.Background(), urls, options()...)
	if err != nil {
		return err
	}
	defer client.Close()
	var storage certmagic.Storage = unlocked{&certmagic.FileStorage{Path: dir}}
	if lock == "redlock" {
		if storage, err = redlockcertmagic.Wrap(&certmagic.FileStorage{Path: dir}, client); err != nil {
			return err
		}
	}
	ca, err := openAuthority(authority, test)
	if err != nil {
		return err
	}
	if err := test.ask("ready"); err != nil {
		return err
	}
	var config *certmagic.Config
	silent := zap.NewNop()
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return config, nil },
		Logger:           silent,
	})
	defer cache.Stop()
	config = certmagic.New(cache, certmagic.Config{Storage: storage, Issuers: []certmagic.Issuer{ca}, Logger: silent})
	// With retries, and so with a renewal of the lease at each attempt.
	if err := config.ObtainCertAsync(context.Background(), domain); err != nil {
		return err
	}
	if _, err := config.CacheManagedCertificate(context.Background(), domain); err != nil {
		return err
	}
	return serve(config, test)
}

// serve serves the certificate until the test ends.
func serve(config *certmagic.Config, test *parent) error {
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config.TLSConfig())
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- serveTLS(listener) }()
	if err := test.ask("serves %s", listener.Addr()); err != nil && !errors.Is(err, errTestEnded) {
		return err
	}
	return errors.Join(listener.Close(), <-served)
}

// instances are processes that get certificates over one directory.
type instances struct {
	*fleet
	nodes     cluster.Nodes
	client    *redlock.Client
	authority string
}

// startInstances starts three instances over five masters, with a kind of lock.
func startInstances(t *testing.T, lock string) *instances {
	t.Helper()
	i := &instances{nodes: cluster.Use(t, 5), authority: newAuthority(t)}
	i.client = openClient(t, i.nodes)
	i.fleet = startFleet(t, 3, "certificates", lock, strings.Join(i.nodes.URLs(), ","), t.TempDir(), i.authority)
	i.sayAll(t, "go")
	return i
}

// finish lets the instances issue what they want to, until so many of them serve. It returns
// the serial numbers of the certificates issued, and of those that are served.
func (i *instances) finish(t *testing.T, n int) (issued, served []string) {
	t.Helper()
	for len(served) < n {
		e := i.next(t)
		word, rest, _ := strings.Cut(e.line, " ")
		switch word {
		case "issues":
			e.from.say(t, "do")
		case "issued":
			issued = append(issued, rest)
		case "serves":
			served = append(served, servedSerial(t, rest, i.authority))
		default:
			require.Fail(t, e.line)
		}
	}
	return issued, served
}

// Two of five masters die while the certificate is issued, which takes longer than a ttl.
func TestThreeInstancesGetOneCertificateAndServeIt(t *testing.T) {
	t.Parallel()
	i := startInstances(t, "redlock")
	first := i.expect(t, "issues")
	holder := awaitQueue(t, i.client, issueLock, 2)
	i.nodes.Pick(1, 3).Kill(t)
	if long.Tests() {
		time.Sleep(ttl + ttl/2) // the authority takes its time
	}
	require.Equal(t, holder, awaitQueue(t, i.client, issueLock, 2), "the lock was lost")
	first.from.say(t, "do")
	issued, served := i.finish(t, 3)
	require.Len(t, issued, 1)
	require.Equal(t, []string{issued[0], issued[0], issued[0]}, served)
}

// The twin of the test above: without the lock there is more than one certificate. The instances
// may also fail then, since one's certificate does not fit to another's key.
func TestWithoutALockInstancesGetSeveralCertificates(t *testing.T) {
	t.Parallel()
	i := startInstances(t, "none")
	var asking []*worker
	for range i.workers {
		asking = append(asking, i.expect(t, "issues").from)
	}
	for _, w := range asking {
		w.say(t, "do")
	}
	for issued := 0; issued < len(i.workers); {
		if strings.HasPrefix(i.next(t).line, "issued ") {
			issued++
		}
	}
}

func TestAnotherInstanceGetsTheCertificateOfOneThatWasKilled(t *testing.T) {
	notInShort(t)
	t.Parallel()
	i := startInstances(t, "redlock")
	first := i.expect(t, "issues")
	awaitQueue(t, i.client, issueLock, 2)
	first.from.kill(t)
	issued, served := i.finish(t, 2)
	require.Len(t, issued, 1)
	require.Equal(t, []string{issued[0], issued[0]}, served)
}
