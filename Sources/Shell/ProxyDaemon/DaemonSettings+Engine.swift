import Bytes
package import Control
import HTTPServer
import HTTPServices
import ProxyCore
import ProxyPolicy
import ProxyRuntime
import PushDelivery
import PushSending
import Registration
import SIPGrammar
import UserSources

extension DaemonSettings {
    /// Returns the engine's settings, with the contents of the credential files as the push service has read them.
    func engineSettings(with service: PushService) -> ProxySettings {
        var engine = engineSettings(with: service.settings, vapidKey: service.vapidKey)
        engine.dispatch = service.setup
        return engine
    }

    /// The engine's settings without the dispatcher's setup (the apps, their credentials, and the limits for pushes).
    func engineSettings(with push: PushSettings, vapidKey: String?) -> ProxySettings {
        var engine = ProxySettings()
        engine.domains = domains.map { ByteString($0) }
        engine.tenants = tenantList
        engine.trusted = engine.tenants.allPeers
        engine.stripped = HeaderFilter(names: stripHeaders)
        engine.upstream = upstream
        engine.upstreamHosts = upstreamHosts.map { .listed($0.map { ByteString($0.lowercased()) }) } ?? .ofUpstream
        engine.upstreamCheck = upstreamCheck
        engine.upstreamRegistrations = Dictionary(
            registerUpstream.map { (ByteString($0.key.lowercased()), $0.value) },
            uniquingKeysWith: { first, _ in first })
        engine.authenticates = auth == .digest
        engine.digest = digest
        engine.users = users.rules
        engine.bearer = bearer.rules
        engine.registrar = registrar
        engine.registrar.push = PushAcceptance(push)
        engine.registrar.push.vapidKey = vapidKey
        engine.bucket = bucket
        engine.missedCalls = missedCalls
        engine.messages = messages
        engine.configuredProviders = push.enabledProviders
        engine.call = call
        engine.callLogging = log.calls
        engine.limits = limits
        engine.notificationsPerDevice = api.notifications.perDevice
        engine.missedCallsLife = max(push.payload.missedCallsTTL, .seconds(120))
        if push.timeline.maximumRecords == 0 { engine.timelineLimit = 0 }
        engine.recordsKept = push.timeline.maximumRecords
        engine.recordsAge = push.timeline.maximumAge
        engine.unreadAge = push.timeline.maximumAge
        return engine
    }

    /// The tenants, each with the peers that are trusted for the tenant.
    var tenantList: Tenants { Tenants(tenants, trusted: trusted) }

    /// The realms of all domains.
    private var realms: Realms { tenantList.realms(common: digest.realm) }

    /// The realm in which the users of a domain are challenged.
    func realm(of domain: String) -> String { realms.realm(for: ByteString(domain)).text.string }

    /// The domains of the users whom operators add, and the realms of their passwords.
    package var userRealms: UserRealms { UserRealms(domains: domains, realms: realms) }

    /// The limits on TCP connections of a process with the given number of descriptors. Descriptors are reserved for
    /// the HTTP interfaces, the store and the providers, so that phones cannot use all of them.
    func flowLimits(descriptors: Int) -> FlowLimits {
        var flows = FlowLimits(limits, authenticates: auth == .digest)
        let others = Self.ownDescriptors + (api.listen.isEmpty && admin.listen.isEmpty ? 0 : api.http.connections)
        flows.connections = min(flows.connections, max(descriptors - others, descriptors / 2))
        return flows
    }

    private static let ownDescriptors = 256
}
