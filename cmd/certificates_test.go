package cmd_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// certificates writes an authority's certificate, ca.pem, and what it signed: server.pem for 127.0.0.1 and redis.test,
// old.pem for the same, which has expired, client.pem for a client; each with its key, as in server.key. other.pem and
// other.key are of an authority that signed nothing of that.
func certificates(ts *testscript.TestScript, _ bool, _ []string) {
	ca := authority(ts, "ca", nil)
	authority(ts, "other", nil)
	now := time.Now()
	for name, until := range map[string]time.Time{"server": now.Add(time.Hour), "old": now.Add(-time.Minute)} {
		ca.sign(ts, name, &x509.Certificate{
			NotBefore: now.Add(-time.Hour), NotAfter: until, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"redis.test"},
		})
	}
	ca.sign(ts, "client", &x509.Certificate{
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// signer is a certificate that signs others.
type signer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func authority(ts *testscript.TestScript, name string, by *signer) *signer {
	return by.sign(ts, name, &x509.Certificate{
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	})
}

// sign writes a certificate and its key; a nil signer has it sign itself.
func (s *signer) sign(ts *testscript.TestScript, name string, c *x509.Certificate) *signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	made := &signer{c, key}
	if s == nil {
		s = made
	}
	der, err := x509.CreateCertificate(rand.Reader, c, s.cert, &key.PublicKey, s.key)
	ts.Check(err)
	secret, err := x509.MarshalECPrivateKey(key)
	ts.Check(err)
	for file, block := range map[string]*pem.Block{
		".pem": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "EC PRIVATE KEY", Bytes: secret},
	} {
		ts.Check(os.WriteFile(ts.MkAbs(name+file), pem.EncodeToMemory(block), 0o600))
	}
	return made
}
