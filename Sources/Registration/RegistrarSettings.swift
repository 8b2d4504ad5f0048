/// How REGISTER requests are judged.
package struct RegistrarSettings: Hashable, Sendable {
    /// What happens to a REGISTER whose push service this proxy does not serve (RFC 8599 section 5.6.1, rule P2).
    ///
    /// ECSS-10 does not say; RFC 8599 wants 555, so that the app knows that it will not be woken.
    package enum UnsupportedPush: String, Hashable, Sendable, CaseIterable {
        /// Answer 555.
        case reject = "reject-555"
        /// Accept the contact as one that expires like any other.
        case ordinary
    }

    /// What names a device across new tokens and addresses (reading A5).
    package enum LabelSource: String, Hashable, Sendable, CaseIterable {
        /// The Contact parameter `label`.
        case label
        /// `+sip.instance`, together with `reg-id` when there is one.
        case instance
    }

    /// Seconds granted when the device asks for none (RFC 3261 section 10.2.1.1).
    package var defaultExpires: UInt32 = 3600
    /// Seconds below which a REGISTER gets 423.
    package var minExpires: UInt32 = 60
    /// The most seconds ever granted.
    package var maxExpires: UInt32 = 86400
    /// Bindings of one AOR; one more gets 403.
    package var maxContacts = 12
    /// Contacts of one REGISTER; one more gets 400.
    package var maxContactsPerRequest = 20
    /// In the order they are tried.
    package var labelSources: [LabelSource] = [.label, .instance]
    package var unsupportedPush = UnsupportedPush.reject
    /// Whether APNs parameters without `pn-param` count as unsupported (rule P8) or as valid (reading A4).
    package var requiresAppleParam = true
    /// Seconds to announce as `+sip.pnsreg` to a device that can refresh by itself; at least 121 (RFC 8599 section
    /// 5.5). `nil` announces none: push contacts never expire, so nobody needs to refresh them (rule R10).
    package var announcedRefresh: UInt32?

    package init() {}
}
