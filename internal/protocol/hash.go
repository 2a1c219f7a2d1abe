package protocol

import (
	"encoding/binary"
	"encoding/hex"
	"math/bits"
)

// HashOf returns the name by which Redis knows a script: its SHA-1, as SCRIPT LOAD answers it. The name protects nothing.
// crypto/sha1 panics in a process that permits the algorithms of FIPS 140-3 alone, and fips140.WithoutEnforcement came
// with Go 1.26: the module supports 1.25. SCRIPT LOAD answers the name, but a client sends the first calls behind it without
// awaiting the answer. A table of names would change with each line of a part, in every script that has the part.
func HashOf(script string) string {
	text := append([]byte(script), 0x80) // a one, and zeros up to the length, which ends a block
	text = append(text, make([]byte, (120-len(text)%64)%64)...)
	text = binary.BigEndian.AppendUint64(text, uint64(len(script))*8)
	sum := [5]uint32{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}
	for ; len(text) > 0; text = text[64:] {
		addBlock(&sum, text[:64])
	}
	var name [20]byte
	for i, part := range sum {
		binary.BigEndian.PutUint32(name[4*i:], part)
	}
	return hex.EncodeToString(name[:])
}

// addBlock adds 64 bytes to a sum, as RFC 3174 has it.
func addBlock(sum *[5]uint32, block []byte) {
	var w [80]uint32
	for i := range w {
		if i < 16 {
			w[i] = binary.BigEndian.Uint32(block[4*i:])
			continue
		}
		w[i] = bits.RotateLeft32(w[i-3]^w[i-8]^w[i-14]^w[i-16], 1)
	}
	a, b, c, d, e := sum[0], sum[1], sum[2], sum[3], sum[4]
	for i, word := range w {
		var mixed uint32
		switch i / 20 {
		case 0:
			mixed = (b&c | ^b&d) + 0x5a827999
		case 1:
			mixed = (b ^ c ^ d) + 0x6ed9eba1
		case 2:
			mixed = (b&c | b&d | c&d) + 0x8f1bbcdc
		default:
			mixed = (b ^ c ^ d) + 0xca62c1d6
		}
		a, b, c, d, e = bits.RotateLeft32(a, 5)+mixed+e+word, a, bits.RotateLeft32(b, 30), c, d
	}
	for i, part := range [5]uint32{a, b, c, d, e} {
		sum[i] += part
	}
}
