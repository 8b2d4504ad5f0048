package import Addressing
package import Bytes
package import ProxyCore
package import ProxyPolicy
package import PushDelivery
import Registration
import Routing
import SIPGrammar
import SIPMessage
package import Telemetry
package import Timekeeping

/// Makes an engine of the proxy for the simulated network. The engine has a UDP and a TCP listener, optionally TLS and
/// WebSocket, a trusted PBX, FCM for pushes, and no passwords.
package enum EngineFixture {
    package static func engine(
        _ stored: StoredState, seed: UInt64, log: Log = .silent, hasTLS: Bool = false,
        startedAt date: UnixTime = UnixTime(seconds: 1_790_000_000),
        node: OwnNode? = nil, at address: IPAddress = IPAddress(v4: 0x0a00_0001), named name: ByteString? = nil,
        _ change: (inout ProxySettings) -> Void = { _ in }
    ) -> ProxyEngine {
        var settings = ProxySettings()
        settings.domains = [ByteString("example.net")]
        settings.trusted = [TrustedPeer("10.0.0.2")].compactMap { $0 }
        settings.authenticates = false
        settings.configuredProviders = [.fcm]
        settings.dispatch = dispatch
        change(&settings)
        settings.node = node
        let proxy = Endpoint(address, 5060)
        var listeners = [
            Listener(number: 0, transport: .udp, bound: proxy, sentBy: name ?? ByteString("\(proxy)")),
            Listener(number: 1, transport: .tcp, bound: proxy, sentBy: name ?? ByteString("\(proxy)")),
        ]
        if hasTLS {
            listeners += [
                Listener(
                    number: 2, transport: .tls, bound: Endpoint(address, 5061), sentBy: ByteString("10.0.0.1:5061")),
                Listener(
                    number: 3, transport: .wss, bound: Endpoint(address, 443), sentBy: ByteString("10.0.0.1:443")),
            ]
        }
        if let node {
            listeners.append(
                Listener(
                    number: node.listener, transport: .tls, bound: Endpoint(proxy.address, 5071), sentBy: node.place,
                    isForNodes: true))
        }
        let identity = LocalIdentity(listeners: listeners, domains: settings.domains)
        var random = SeededGenerator(seed: seed)
        let reader = MessageReader()
        let functions = ProxyFunctions(
            seal: .forTests, random: { random.next() },
            reread: { bytes in
                guard case .request(let request) = reader.read(bytes, isStream: false) else { return nil }
                return request
            }, packing: .forTests, digest: .forTests,
            upstreamSeal: node.map { _ in .forTests }, log: log)
        return ProxyEngine(
            settings: settings, identity: identity, functions: functions, restoring: stored,
            startedAt: date)
    }

    /// The setup of push dispatch for tests. The setup has one app without credentials for each provider that needs no
    /// server address.
    package static var dispatch: DispatchSetup {
        var push = PushSettings()
        push.fcm.enabled = true
        // FCM's legacy answers can contain everything that a provider can report about a token.
        push.fcm.bodyFormat = .legacy
        push.apns.enabled = true
        push.apns.afterEnd = AfterEnd.none
        push.webPush.enabled = true
        push.acrobits.enabled = true
        return DispatchSetup(PushDirectory(push))
    }
}
