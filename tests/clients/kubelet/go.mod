module gpuyard/tests/clients/kubelet

go 1.25.0

require (
	google.golang.org/grpc v1.78.0
	k8s.io/kubelet v0.37.2
)
