package import Bytes
package import ProxyPolicy
package import Registration
package import SIPGrammar

/// The treatment of one call if no phone wakes.
package enum NoWakePlan: Equatable {
    case answer(Status)
    /// 302 with this Contact.
    case redirect(ByteString)
    /// The INVITE goes to this URI through the upstream. If that fails, the caller gets the status.
    case forward(ByteString, orElse: Status)

    /// The facts that decide the treatment besides the settings.
    package struct Circumstances {
        /// The call came from a trusted peer. Only such a caller is redirected: a phone would show its password wherever the URI
        /// leads.
        package var isTrusted: Bool
        /// The settings name an upstream that is not known to be down.
        package var hasUpstream: Bool
        /// The call was diverted too often, or by this user before.
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

    /// The final response of a call that ends without a forward.
    package var status: Status {
        switch self {
        case .answer(let status), .forward(_, let status): status
        case .redirect: .movedTemporarily
        }
    }

    /// The fields of that response.
    package var fields: [AddedField] {
        guard case .redirect(let uri) = self else { return [] }
        return [AddedField("Contact", ByteString("<\(uri)>"))]
    }
}

extension Status {
    static let movedTemporarily: Status = 302
}
