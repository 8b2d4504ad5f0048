@testable import LocationService
import Addressing
import Telemetry
import Testing
import TestSupport
import Timekeeping

@Suite("Push tokens that others can read")
struct UnprotectedTokensTests {
    private static let internet = Endpoint(IPAddress(v4: 0x5db8_d822), 40_000)

    private func flow(_ transport: Transport, from remote: Endpoint = internet) -> Flow {
        Flow(transport: transport, listener: 0, connection: 0, remote: remote)
    }

    @Test func `the first one from the internet without TLS is reported, once`() {
        var tokens = UnprotectedTokens()
        var told: [Bool] = []
        for transport in [Transport.tls, .wss] {
            told.append(tokens.contactAccepted(on: flow(transport), isTrusted: false))
        }
        told.append(tokens.contactAccepted(on: flow(.udp), isTrusted: true))
        for address in ["10.0.0.7", "192.168.1.2", "127.0.0.1", "fd00::1", "fe80::1"].compactMap({ IPAddress($0) }) {
            told.append(tokens.contactAccepted(on: flow(.tcp, from: Endpoint(address, 40_000)), isTrusted: false))
        }
        #expect(told == Array(repeating: false, count: 8))
        told = [Transport.ws, .udp].map { tokens.contactAccepted(on: flow($0), isTrusted: false) }
        #expect(told == [true, false])
    }
}
