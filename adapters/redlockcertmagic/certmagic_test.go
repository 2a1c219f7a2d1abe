package redlockcertmagic_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/redlock-go/redlock/redlocktest"
)

// authority is an internal certificate authority: it signs what it is asked to, with a
// certificate of its own that nobody trusts.
type authority struct {
	issued  atomic.Int64
	issuing func() // called before each certificate; may be nil
}

func (a *authority) IssuerKey() string { return "internal" }

func (a *authority) Issue(_ context.Context, request *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	if a.issuing != nil {
		a.issuing()
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "internal"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(1 + a.issued.Add(1)), DNSNames: request.DNSNames, KeyUsage: x509.KeyUsageDigitalSignature,
		NotBefore: root.NotBefore, NotAfter: root.NotAfter,
	}
	signed, err := x509.CreateCertificate(rand.Reader, leaf, root, request.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})}, nil
}

// newConfig returns certmagic's settings over a storage, and a function that stops certmagic.
func newConfig(storage certmagic.Storage, issuer certmagic.Issuer) (config *certmagic.Config, stop func()) {
	silent := zap.NewNop()
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return config, nil },
		Logger:           silent,
	})
	config = certmagic.New(cache, certmagic.Config{Storage: storage, Issuers: []certmagic.Issuer{issuer}, Logger: silent})
	return config, cache.Stop
}

// Three instances want the certificate of one name at once.
func TestOneOfThreeInstancesGetsTheCertificate(t *testing.T) {
	t.Parallel()
	nodes, dir := redlocktest.Start(t, 3), t.TempDir()
	instances := []instance{start(t, nodes, dir), start(t, nodes, dir), start(t, nodes, dir)}
	ca := &authority{issuing: func() { awaitQueue(t, instances[0].client, 2) }}
	var group sync.WaitGroup
	for _, a := range instances {
		config, stop := newConfig(a.Storage, ca)
		defer stop()
		group.Go(func() {
			if err := config.ObtainCertSync(t.Context(), "example.com"); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	require.EqualValues(t, 1, ca.issued.Load())
	for _, a := range instances {
		config, stop := newConfig(a.Storage, ca)
		defer stop()
		cert, err := config.CacheManagedCertificate(t.Context(), "example.com")
		require.NoError(t, err)
		require.EqualValues(t, 2, cert.Leaf.SerialNumber.Int64())
	}
}

// The lock is taken away between two attempts: certmagic makes none without a lease.
func TestCertmagicMakesNoAttemptWithoutALease(t *testing.T) {
	a, b, _ := startTwo(t)
	ca := &authority{}
	attempts := 1
	config, stop := newConfig(lockThief{a, b}, ca)
	defer stop()
	ctx := context.WithValue(t.Context(), certmagic.AttemptsCtxKey, &attempts)
	err := config.ObtainCertSync(ctx, "example.com")
	require.ErrorContains(t, err, "unable to renew lock lease")
	require.ErrorContains(t, err, "is lost: its keys were deleted")
	require.Zero(t, ca.issued.Load())
}

// lockThief is a storage whose lock another instance takes away as soon as it is acquired.
type lockThief struct {
	instance
	other instance
}

func (l lockThief) Lock(ctx context.Context, name string) error {
	if err := l.instance.Lock(ctx, name); err != nil {
		return err
	}
	_, err := l.other.client.ForceUnlock(ctx, "certmagic:"+name)
	return err
}
