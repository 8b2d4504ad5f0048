import Addressing
import HTTPServer
import HTTPServices
import ProxyRuntime
import Testing

@testable import ProxyDaemon

@Suite("Descriptors")
struct DescriptorTests {
    @Test func `connections leave descriptors to the rest of the daemon`() {
        var settings = DaemonSettings()
        settings.api.http.connections = 1000
        #expect(settings.flowLimits(descriptors: 1_048_576).connections == 50_000)
        #expect(settings.flowLimits(descriptors: 10_000).connections == 10_000 - 256)
        settings.api.listen = [Endpoint(.loopbackV4, 0)]
        #expect(settings.flowLimits(descriptors: 10_000).connections == 10_000 - 1256)
        // Connections get half of a small number of file descriptors.
        #expect(settings.flowLimits(descriptors: 1024).connections == 512)
    }
}
