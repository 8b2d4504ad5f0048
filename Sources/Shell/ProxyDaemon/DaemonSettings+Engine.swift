import Bytes
package import Control
import HTTPServer
import HTTPServices
import ProxyCore
import ProxyRuntime
import PushDelivery
import PushSending
import Registration
import SIPGrammar

extension DaemonSettings {
    /// The same settings, completed with values that the push service read from files: the projects of service
    /// accounts.
    func with(_ push: PushService) -> DaemonSettings {
        var settings = self
        settings.push = push.settings
        return settings
    }

    /// The part of the configuration that the engine needs.
    var engineSettings: ProxySettings {
        var engine = ProxySettings()
        engine.domains = domains.map { ByteString($0) }
        engine.trusted = trusted
        engine.stripped = HeaderFilter(names: stripHeaders)
        engine.upstream = upstream
        engine.upstreamHosts = upstreamHosts.map { .listed($0.map { ByteString($0.lowercased()) }) } ?? .ofUpstream
        engine.upstreamCheck = upstreamCheck
        engine.authenticates = auth == .digest
        engine.digest = digest
        engine.registrar = registrar
        engine.registrar.push = PushAcceptance(push)
        engine.bucket = bucket
        engine.missedCalls = missedCalls
        engine.messages = messages
        engine.configuredProviders = push.enabledProviders
        engine.pushApps = PushDirectory(push)
        engine.call = call
        engine.limits = limits
        engine.notificationsPerDevice = api.notifications.perDevice
        engine.missedCallsLife = max(push.payload.missedCallsTTL, .seconds(120))
        if push.timeline.maximumRecords == 0 { engine.timelineLimit = 0 }
        engine.recordsKept = push.timeline.maximumRecords
        engine.recordsAge = push.timeline.maximumAge
        engine.unreadAge = push.timeline.maximumAge
        return engine
    }

    /// The domains of users that operators add, and the realm of their passwords.
    package var userRealms: UserRealms { UserRealms(domains: domains, realm: digest.realm) }

    /// The keys that differ and need a restart.
    func fixedDifferences(from other: DaemonSettings) -> [String] {
        var keys: [String] = []
        if domains != other.domains { keys.append("domains") }
        if listen != other.listen { keys.append("listen") }
        if loadBalancers != other.loadBalancers { keys.append("load-balancers") }
        if advertise != other.advertise { keys.append("advertise") }
        if store != other.store { keys.append("store") }
        if calls != other.calls { keys.append("calls") }
        if control != other.control { keys.append("control") }
        if digest != other.digest { keys.append("digest") }
        if registrar != other.registrar { keys.append("registrar") }
        if bucket != other.bucket { keys.append("bucket") }
        if push != other.push { keys.append("push") }
        if api != other.api { keys.append("api") }
        if admin != other.admin { keys.append("admin") }
        if webSocket != other.webSocket { keys.append("websocket") }
        if log.format != other.log.format { keys.append("log.format") }
        if limits.wrongLoginsPerSource != other.limits.wrongLoginsPerSource {
            keys.append("limits.wrong-logins-per-source")
        }
        if limits.memory != other.limits.memory { keys.append("limits.memory") }
        if limits.wrongLoginsPerUser != other.limits.wrongLoginsPerUser { keys.append("limits.wrong-logins-per-user") }
        return keys
    }

    mutating func takeReloadable(from other: DaemonSettings) {
        auth = other.auth
        trusted = other.trusted
        stripHeaders = other.stripHeaders
        upstream = other.upstream
        upstreamHosts = other.upstreamHosts
        upstreamCheck = other.upstreamCheck
        tls = other.tls
        call = other.call
        messages = other.messages
        log.level = other.log.level
        shutdown = other.shutdown
        let (perSource, perUser) = (limits.wrongLoginsPerSource, limits.wrongLoginsPerUser)
        limits = other.limits
        (limits.wrongLoginsPerSource, limits.wrongLoginsPerUser) = (perSource, perUser)
    }

    /// The limits for TCP connections in a process that may open `descriptors` file descriptors. Some descriptors are
    /// reserved for the HTTP interfaces, the store and the providers, so that many connections cannot take them.
    func flowLimits(descriptors: Int) -> FlowLimits {
        var flows = FlowLimits(limits, authenticates: auth == .digest)
        let others = Self.ownDescriptors + (api.listen.isEmpty && admin.listen.isEmpty ? 0 : api.http.connections)
        flows.connections = min(flows.connections, max(descriptors - others, descriptors / 2))
        return flows
    }

    private static let ownDescriptors = 256
}
