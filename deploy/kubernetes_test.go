package deploy_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testclient"
)

// manifests are the objects of deploy/kubernetes, by kind and name, such as "Service redlock-masters".
type manifests map[string]any

// readManifests decodes all files strictly: unknown and repeated keys are errors.
func readManifests(t *testing.T) manifests {
	t.Helper()
	files, err := filepath.Glob("kubernetes/*.yaml")
	require.NoError(t, err)
	all := manifests{}
	for _, file := range files {
		for document := range strings.SplitSeq(readFile(t, file), "\n---\n") {
			var head struct {
				metav1.TypeMeta `json:",inline"`
				Metadata        metav1.ObjectMeta `json:"metadata"`
			}
			require.NoError(t, yaml.Unmarshal([]byte(document), &head), file)
			object := newObject(head.APIVersion + " " + head.Kind)
			require.NotNil(t, object, "%s: %s %s", file, head.APIVersion, head.Kind)
			require.NoError(t, yaml.UnmarshalStrict([]byte(document), object), file)
			all[head.Kind+" "+head.Metadata.Name] = object
		}
	}
	return all
}

// newObject returns an empty object of a kind, nil if no manifest should have it.
func newObject(kind string) any {
	switch kind {
	case "v1 ConfigMap":
		return &corev1.ConfigMap{}
	case "v1 Secret":
		return &corev1.Secret{}
	case "v1 Service":
		return &corev1.Service{}
	case "apps/v1 StatefulSet":
		return &appsv1.StatefulSet{}
	case "policy/v1 PodDisruptionBudget":
		return &policyv1.PodDisruptionBudget{}
	case "networking.k8s.io/v1 NetworkPolicy":
		return &networkingv1.NetworkPolicy{}
	case "batch/v1 CronJob":
		return &batchv1.CronJob{}
	}
	return nil
}

// object returns one of the manifests.
func object[T any](t *testing.T, all manifests, name string) T {
	t.Helper()
	o, ok := all[name].(T)
	require.True(t, ok, "%s: %T", name, all[name])
	return o
}

const app = "redlock-master"

func TestMastersAreIndependentAndApart(t *testing.T) {
	all := readManifests(t)
	set := object[*appsv1.StatefulSet](t, all, "StatefulSet "+app)
	service := object[*corev1.Service](t, all, "Service redlock-masters")
	labels := set.Spec.Template.Labels
	require.Equal(t, labels, set.Spec.Selector.MatchLabels)
	require.Equal(t, labels, service.Spec.Selector)
	require.Equal(t, service.Name, set.Spec.ServiceName)
	require.Equal(t, corev1.ClusterIPNone, service.Spec.ClusterIP, "an address that several masters share breaks locks")
	require.True(t, service.Spec.PublishNotReadyAddresses, "a master that waits for its guard is reached")

	// The list that clients get has each pod once.
	var urls []string
	for i := range *set.Spec.Replicas {
		urls = append(urls, fmt.Sprintf("redis://locks@%s-%d.%s:%d?passwordfile=/etc/redlock/password", set.Name, i, service.Name, service.Spec.Ports[0].Port))
	}
	nodes := object[*corev1.ConfigMap](t, all, "ConfigMap redlock-nodes")
	require.Equal(t, strings.Join(urls, ","), nodes.Data["REDLOCK_NODES"])

	apart := set.Spec.Template.Spec.Affinity.PodAntiAffinity
	require.Equal(t, corev1.LabelHostname, apart.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey)
	require.Equal(t, labels, apart.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector.MatchLabels)
	preferred := apart.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm
	require.Equal(t, corev1.LabelTopologyZone, preferred.TopologyKey)
	require.Equal(t, labels, preferred.LabelSelector.MatchLabels)

	budget := object[*policyv1.PodDisruptionBudget](t, all, "PodDisruptionBudget "+app)
	require.Equal(t, labels, budget.Spec.Selector.MatchLabels)
	require.Equal(t, 1, budget.Spec.MaxUnavailable.IntValue())
}

func TestMastersHaveTheirSettingsVolumesAndProbes(t *testing.T) {
	all := readManifests(t)
	settings := strings.Split(object[*corev1.ConfigMap](t, all, "ConfigMap "+app).Data["redis.conf"], "\n")
	require.Subset(t, settings, []string{
		"appendonly yes", "appendfsync everysec", `save ""`, "maxmemory-policy noeviction", "timeout 0", "protected-mode no",
	})
	spec := object[*appsv1.StatefulSet](t, all, "StatefulSet "+app).Spec
	container := spec.Template.Spec.Containers[0]
	assert.Regexp(t, pinned, container.Image)
	assert.Equal(t, int64(999), *spec.Template.Spec.SecurityContext.FSGroup)
	assert.False(t, container.Resources.Limits.Memory().IsZero())

	sources := []string{spec.VolumeClaimTemplates[0].Name}
	for _, v := range spec.Template.Spec.Volumes {
		sources = append(sources, v.Name)
		switch {
		case v.ConfigMap != nil:
			assert.Contains(t, all, "ConfigMap "+v.ConfigMap.Name)
		case v.Secret != nil:
			assert.Contains(t, all, "Secret "+v.Secret.SecretName)
		}
	}
	var mounted []string
	for _, m := range container.VolumeMounts {
		mounted = append(mounted, m.Name)
	}
	require.ElementsMatch(t, sources, mounted)
}

// The job's pod may reach the masters, has their list, and its ttl is shorter than a master waits until it counts as ready.
func TestCronJobLocksAtTheMasters(t *testing.T) {
	all := readManifests(t)
	pod := object[*batchv1.CronJob](t, all, "CronJob nightly").Spec.JobTemplate.Spec.Template
	policy := object[*networkingv1.NetworkPolicy](t, all, "NetworkPolicy "+app)
	spec := object[*appsv1.StatefulSet](t, all, "StatefulSet "+app).Spec
	require.Equal(t, spec.Template.Labels, policy.Spec.PodSelector.MatchLabels)
	for key, value := range policy.Spec.Ingress[0].From[0].PodSelector.MatchLabels {
		require.Equal(t, value, pod.Labels[key])
	}
	require.Equal(t, spec.Template.Spec.Containers[0].Ports[0].Name, policy.Spec.Ingress[0].Ports[0].Port.StrVal)

	container := pod.Spec.Containers[0]
	require.Contains(t, all, "ConfigMap "+container.EnvFrom[0].ConfigMapRef.Name)
	require.Equal(t, "REDLOCK_LABEL", container.Env[0].Name)
	require.Equal(t, "metadata.labels['batch.kubernetes.io/job-name']", container.Env[0].ValueFrom.FieldRef.FieldPath)
	require.Equal(t, "/etc/redlock", container.VolumeMounts[0].MountPath)
	require.Equal(t, container.VolumeMounts[0].Name, pod.Spec.Volumes[0].Name)
	password := object[*corev1.Secret](t, all, "Secret "+pod.Spec.Volumes[0].Secret.SecretName).StringData["password"]
	require.Contains(t, mastersUsers(t), "\nuser locks on >"+password+" ")
	words := container.Command
	require.Equal(t, []string{"redlock", "run", "nightly"}, words[:3])
	manual := readFile(t, "../docs/redlock.1")
	for _, word := range words[3:slices.Index(words, "--")] {
		if strings.HasPrefix(word, "--") {
			require.Regexp(t, `\\fB`+word+`\\fP`, manual)
		}
	}
	ttl, err := time.ParseDuration(words[slices.Index(words, "--ttl")+1])
	require.NoError(t, err)
	ready := time.Duration(spec.Template.Spec.Containers[0].ReadinessProbe.InitialDelaySeconds) * time.Second
	require.GreaterOrEqual(t, ready, ttl+5*time.Second, "a master counts as ready when it votes: one guard after its start, and some time to connect")
}

// mastersUsers returns the file of users of the masters.
func mastersUsers(t *testing.T) string {
	t.Helper()
	return object[*corev1.Secret](t, readManifests(t), "Secret redlock-users").StringData["users.acl"]
}

func TestMastersGiveTheRightsOfTheDocs(t *testing.T) {
	page := strings.ReplaceAll(readFile(t, "../docs/operations.md"), "\\\n", " ")
	m := regexp.MustCompile(`ACL SETUSER locks on '>secret' (.*)\n`).FindStringSubmatch(page)
	require.NotNil(t, m, "the command in docs/operations.md")
	rights := strings.Join(strings.Fields(strings.ReplaceAll(m[1], "'", "")), " ")
	require.Contains(t, strings.Split(mastersUsers(t), "\n"), "user locks on >change-me "+rights)
}

// Real servers with this configuration give locks to the user of the manifests, and the default user nothing.
func TestMastersOfTheManifestsServeLocks(t *testing.T) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed")
	}
	conf := object[*corev1.ConfigMap](t, readManifests(t), "ConfigMap "+app).Data["redis.conf"]
	var urls []string
	for range 3 {
		address, _ := startMaster(t, program, conf, mastersUsers(t))
		urls = append(urls, address)
	}
	open := func(user string) *redlock.Client {
		var all []string
		for _, address := range urls {
			all = append(all, "redis://"+user+address)
		}
		return testclient.OpenUnready(t, all)
	}
	client := open("locks:change-me@")
	require.NoError(t, client.WaitReady(t.Context()))
	lease, err := client.Mutex("nightly", redlock.WithMinHold(time.Second)).Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
	_, err = open("").Mutex("nightly").TryLock(t.Context())
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
}
