package import Bytes
package import ProxyPolicy
package import Registration
package import SIPGrammar

/// The treatment of a call for which no phone wakes.
package enum NoWakePlan: Equatable {
    case answer(Status)
    /// The caller gets 302 with the given Contact.
    case redirect(ByteString)
    /// The INVITE is forwarded to the given URI through the upstream; if the destination refuses, the caller gets the
    /// status.
    case forward(ByteString, orElse: Status)

    /// The facts about a call that, with the settings, decide what happens if no phone wakes.
    package struct Circumstances {
        /// Whether the call came from a trusted peer.
        ///
        /// Only a trusted peer is redirected, because a phone would send its credentials to the host of the new URI.
        package var isTrusted: Bool
        /// Whether the settings have an upstream, and the upstream is not down.
        package var hasUpstream: Bool
        /// Whether the call was diverted too often, or the called user has already diverted the call.
        package var wasDiverted: Bool

        package init(isTrusted: Bool, hasUpstream: Bool, wasDiverted: Bool) {
            self.isTrusted = isTrusted
            self.hasUpstream = hasUpstream
            self.wasDiverted = wasDiverted
        }
    }

    package init(_ settings: NoWakeSettings, for aor: AddressOfRecord, _ circumstances: Circumstances) {
        let settings = settings.settings(for: aor)
        let status = Status(code: settings.status)
        guard let target = settings.target, circumstances.isTrusted, !circumstances.wasDiverted else {
            self = .answer(status)
            return
        }
        switch settings.action {
        case .redirect: self = .redirect(target.uri(for: aor.user))
        case .forward where circumstances.hasUpstream: self = .forward(target.uri(for: aor.user), orElse: status)
        case .answer, .forward: self = .answer(status)
        }
    }

    package var forwards: Bool { if case .forward = self { true } else { false } }

    /// The caller's final status, unless the forwarded call is answered.
    package var status: Status {
        switch self {
        case .answer(let status), .forward(_, let status): status
        case .redirect: .movedTemporarily
        }
    }

    /// The header fields to add to the final response: the Contact of a redirect.
    package var fields: [AddedField] {
        guard case .redirect(let uri) = self else { return [] }
        return [AddedField("Contact", ByteString("<\(uri)>"))]
    }
}
