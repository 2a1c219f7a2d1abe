package cluster

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

const defaultImage = "redis:7-alpine"

// findImage names an image that the engine has: the one that REDLOCK_TEST_IMAGE names; without it, the default. It pulls
// none: make test does, once for all packages.
func findImage(ctx context.Context, docker *testcontainers.DockerClient) (string, error) {
	image := os.Getenv(imageEnv)
	if image == "" {
		image = defaultImage
	}
	if _, err := docker.ImageInspect(ctx, image); err != nil {
		return "", fmt.Errorf("the Docker engine has no image %s: %w", image, err)
	}
	return image, nil
}

// localImage imports an image that holds nothing but this machine's redis-server and the
// libraries it is linked against. It is named by its content, so that a later run
// finds it again and an upgraded server gets a new one.
func localImage(ctx context.Context, docker *testcontainers.DockerClient) (string, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return "", err
	}
	root, err := rootFS(ctx, binary)
	if err != nil {
		return "", fmt.Errorf("image from %s: %w", binary, err)
	}
	name := fmt.Sprintf("redlock-test-redis:%.6x", sha256.Sum256(root))
	if _, err := docker.ImageInspect(ctx, name); err == nil {
		return name, nil
	}
	source := client.ImageImportSource{Source: bytes.NewReader(root), SourceName: "-"}
	progress, err := docker.ImageImport(ctx, source, name, client.ImageImportOptions{})
	if err != nil {
		return "", fmt.Errorf("import image: %w", err)
	}
	defer progress.Close()
	if _, err := io.Copy(io.Discard, progress); err != nil {
		return "", fmt.Errorf("import image: %w", err)
	}
	return name, nil
}

// rootFS returns a tar archive of the file system for localImage.
func rootFS(ctx context.Context, binary string) ([]byte, error) {
	linked, err := exec.CommandContext(ctx, "ldd", binary).Output()
	if err != nil {
		return nil, fmt.Errorf("ldd: %w", err)
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "data/", Mode: 0o755}); err != nil {
		return nil, err
	}
	if err := addFile(w, binary, "/usr/local/bin/redis-server"); err != nil {
		return nil, err
	}
	for _, lib := range regexp.MustCompile(`/\S+`).FindAllString(string(linked), -1) {
		if err := addFile(w, lib, path.Clean(lib)); err != nil {
			return nil, err
		}
	}
	return buf.Bytes(), w.Close()
}

// addFile archives what from finally points to. It leaves out times and owners,
// so that equal content makes an equal archive.
func addFile(w *tar.Writer, from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: to[1:], Mode: 0o755, Size: int64(len(content))}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}
