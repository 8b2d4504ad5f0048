package import Addressing
import Bytes
package import Registration
import Routing
package import SIPGrammar
import Timekeeping

/// Finds out who is responsible for a request, so that the limits of this caller apply.
extension Caller {
    /// Creates the caller for an authenticated user.
    package init(user: AddressOfRecord) {
        var hash = FNV1a()
        hash.mix(1)
        hash.mix(user.user)
        hash.mix(user.host)
        self.init(hash: hash.value, isTrusted: false)
    }

    /// Creates the caller of a request without password. The caller is the user that a trusted peer names, or else the
    /// sender's address.
    package init(of request: SIPRequest, on flow: Flow, isTrusted: Bool) {
        self = isTrusted ? Caller(namedIn: request, by: flow.remote.address) : Caller(flow.remote.address)
    }

    /// Creates the caller that a trusted peer names in P-Asserted-Identity or else in From; an anonymous caller is
    /// treated as the peer itself.
    package init(namedIn request: SIPRequest, by peer: IPAddress) {
        let asserted = request.frame.firstValue(of: .pAssertedIdentity).flatMap(CallerIdentity.uri(of:))
            .flatMap { SIPURI($0) }
        let uri = asserted ?? request.from.uri
        let host = uri.host
        let isAnonymous =
            host.equalsIgnoringCase("anonymous.invalid") || uri.user?.equalsIgnoringCase("anonymous") == true
        guard asserted != nil || !isAnonymous else {
            self.init(peer, isTrusted: true)
            return
        }
        var hash = FNV1a()
        hash.mix(2)
        hash.mix(uri.user ?? .empty)
        hash.mix(host.lowercased())
        self.init(hash: hash.value, isTrusted: true)
    }
}
