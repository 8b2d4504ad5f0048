import Addressing
import Bytes
import Control
import HTTPServices
import Registration
import Routing
import UserSources

extension DaemonSettings {
    /// Returns the values of the settings for links with which phones get accounts. The closure `endpoints` returns the
    /// addresses of the HTTP API.
    func provisioningPlan(
        listeners: [Listener], endpoints: @escaping @Sendable () -> [Endpoint]
    ) -> ProvisioningPlan {
        var plan = ProvisioningPlan()
        plan.settings = api.provisioning
        plan.host = advertise
        plan.domain = domains.first ?? ""
        plan.usesTLS = api.certFile != nil
        plan.endpoints = endpoints
        plan.listeners = listeners.filter { !$0.isForNodes }.map { ($0.transport, $0.bound.port) }
        plan.algorithms = digest.algorithms
        let sources = users.rules.sources.map { (name: "the source \($0.name) of users", domains: $0.domains) }
        let issuers = bearer.rules.issuers.map { (name: "the login server \($0.name)", domains: $0.domains) }
        plan.otherSources = { domain in
            (sources + issuers).filter { $0.domains.isEmpty || $0.domains.contains(ByteString(domain)) }.map(\.name)
        }
        return plan
    }
}
