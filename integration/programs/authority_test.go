package programs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/require"
)

// domain is what the certificates are for.
const domain = "shop.example.com"

// newAuthority makes an internal certificate authority: a file with its certificate and key.
func newAuthority(t *testing.T) (file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "internal"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, root, root, key.Public(), key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	file = filepath.Join(t.TempDir(), "authority.pem")
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})...)
	require.NoError(t, os.WriteFile(file, text, 0o600))
	return file
}

// issuer is a process's access to the authority. It asks the test before it signs, and reports
// each certificate.
type issuer struct {
	root tls.Certificate
	test *parent
}

func openAuthority(file string, test *parent) (*issuer, error) {
	root, err := tls.LoadX509KeyPair(file, file)
	return &issuer{root, test}, err
}

func (i *issuer) IssuerKey() string { return "internal" }

func (i *issuer) Issue(_ context.Context, request *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	if err := i.test.ask("issues"); err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	cert, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, DNSNames: request.DNSNames, KeyUsage: x509.KeyUsageDigitalSignature,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(12 * time.Hour),
	}, i.root.Leaf, request.PublicKey, i.root.PrivateKey)
	if err != nil {
		return nil, err
	}
	i.test.say("issued %v", serial)
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})}, nil
}

// servedSerial makes a TLS connection to a process, and returns the serial number of the
// certificate that it shows, which the authority must have signed.
func servedSerial(t *testing.T, addr, authority string) string {
	t.Helper()
	text, err := os.ReadFile(authority)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(text))
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: domain}}
	conn, err := dialer.DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	certs := conn.(*tls.Conn).ConnectionState().PeerCertificates
	require.NotEmpty(t, certs)
	return certs[0].SerialNumber.String()
}

// serveTLS completes handshakes until the listener is closed.
func serveTLS(listener net.Listener) error {
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		err = conn.(*tls.Conn).Handshake()
		if closed := conn.Close(); err != nil || closed != nil {
			return errors.Join(err, closed)
		}
	}
}
