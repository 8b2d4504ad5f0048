package import PushDelivery
package import Settings
import Timekeeping

/// Settings of how REGISTERs are judged.
package struct RegistrarSettings: SettingsGroup, Equatable {
    /// The answer to a REGISTER whose push service this proxy does not serve (RFC 8599 section 5.6.1, rule P2).
    ///
    /// ECSS-10 does not define it. RFC 8599 allows 555 if the proxy knows that no other proxy on the path supports the
    /// service. The app then knows that it will not be woken.
    package enum UnsupportedPush: String, Hashable, Sendable, CaseIterable {
        /// Answer 555.
        case reject = "reject-555"
        /// Accept the contact as one that expires like any other.
        case ordinary
    }

    /// The part of a Contact that names its device, whatever its token and address are (reading A5).
    package enum LabelSource: String, Hashable, Sendable, CaseIterable {
        /// The Contact parameter `label`.
        case label
        /// `+sip.instance`, together with `reg-id` if present.
        case instance
    }

    package var defaultExpiry: Duration = .seconds(3600)
    package var minExpiry: Duration = .seconds(60)
    package var maxExpiry: Duration = .seconds(86400)
    package var maxContacts = 12
    /// The maximum number of contacts in one REGISTER. More contacts get 400.
    package var maxContactsPerRequest = 20
    /// The sources of a device's name, in the order in which they are tried.
    package var labelSources: [LabelSource] = [.label, .instance]
    package var unsupportedPush = UnsupportedPush.reject
    /// Zero: not announced.
    package var announcedRefresh: Duration = .seconds(130)
    package var announcesPURR = false
    /// How long before the end of its contact a push asks the phone to register again. Zero: never.
    package var refreshPushLead: Duration = .zero
    /// Zero: not announced.
    package var flowTimer: Duration = .zero
    /// The push providers' settings for registration. They are computed, and not a key of this group.
    package var push = PushAcceptance()

    package init() {}

    package static let schema: [Setting<RegistrarSettings>] = [
        .duration(
            "default-expires", in: .seconds(60)...maxDuration, \.defaultExpiry,
            "The lifetime of a contact if its REGISTER names no expiry."),
        .duration(
            "min-expires", in: .seconds(1)...(.seconds(3600)), \.minExpiry,
            "The minimum lifetime of a contact. A REGISTER with a shorter Expires gets 423. Raise min-expires if phones register too often."
        ),
        .duration(
            "max-expires", in: .seconds(60)...maxDuration, \.maxExpiry,
            "The maximum lifetime of a contact. A contact with push parameters is kept after its lifetime, until its phone signs out."
        ),
        .integer(
            "max-contacts", in: 1...100, \.maxContacts,
            "The maximum number of contacts of one user. A REGISTER for a further contact gets 403."),
        .list(
            "label", of: .choice, \.labelSources,
            "How a phone with a new push token is recognised: by the Contact parameter label, or by its instance "
                + "(+sip.instance). The new contact then replaces the old one. The daemon uses the first entry of the list that the Contact has."
        ),
        .choice(
            "unsupported-push", \.unsupportedPush,
            "The treatment of a contact whose push service is unknown or switched off, or whose token cannot belong to one of your apps (docs/Providers.md). reject-555: the REGISTER gets 555 with a Warning that gives the reason. ordinary: the contact is accepted without pushes, and expires."
        ),
        .duration(
            "announce-refresh", in: .zero...maxDuration, \.announcedRefresh,
            "Ask phones that can wake up by themselves (+sip.pnsreg) to register again at least this long before their contact "
                + "expires; more than 120 s (RFC 8599). 0s: do not ask phones. Contacts with push parameters are kept after they expire in any case."
        ),
        .duration(
            "refresh-push", in: .zero...maxDuration, \.refreshPushLead,
            "Wake a phone by a silent push if its registration expires within this time and the phone has not refreshed it. At least 180s (RFC 8599 section 5.5), and less than default-expires. A REGISTER with push parameters and a shorter Expires gets 423. 0s: no such pushes. Calls wake a phone with push parameters even if its registration has expired."
        ),
        .bool(
            "announce-purr", \.announcesPURR,
            "Give phones with push parameters a reference for their Contacts (+sip.pnspurr, pn-purr; RFC 8599). With this reference, requests from outside a call reach the phone that is in the call. Requests inside a call wake the phone without the reference too. The reference makes each REGISTER slower."
        ),
        .duration(
            "flow-timer", in: .zero...(.seconds(86_400)), \.flowTimer,
            "The Flow-Timer for phones with several flows (RFC 5626): a phone must send something on each flow at least this often. A connection that is silent for ten seconds more is closed. A silent flow over UDP is tried after the other flows. If the phone has no other flow, a push wakes it. 0s: the daemon sends no Flow-Timer, and keeps silent connections."
        ),
    ]

    package func complaints() -> [SettingComplaint] {
        guard announcedRefresh == .zero || announcedRefresh > .seconds(120) else {
            return [SettingComplaint("must be more than 120s, or 0s", key: "announce-refresh")]
        }
        guard refreshPushLead == .zero || refreshPushLead >= .seconds(180) else {
            return [SettingComplaint("must be at least 180s, or 0s", key: "refresh-push")]
        }
        guard refreshPushLead < defaultExpiry else {
            return [SettingComplaint("must be less than default-expires", key: "refresh-push")]
        }
        guard minExpiry <= defaultExpiry, defaultExpiry <= maxExpiry else {
            return [SettingComplaint("must lie between min-expires and max-expires", key: "default-expires")]
        }
        return []
    }

    private static let maxDuration = Duration.seconds(31_536_000)
}

extension RegistrarSettings {
    /// The value of Flow-Timer; `nil` if none is announced.
    var flowTimerSeconds: UInt32? { flowTimer == .zero ? nil : ExpiryLimits.seconds(flowTimer) }

    /// The value of `+sip.pnsreg`; `nil` if none is announced.
    var refreshSeconds: UInt32? { announcedRefresh == .zero ? nil : ExpiryLimits.seconds(announcedRefresh) }
}

/// The settings about time in whole seconds, the unit of SIP.
struct ExpiryLimits: Sendable {
    let standard, least, most: UInt32
    /// The minimum for a contact with push parameters: it must not end before its refresh is requested (RFC 8599
    /// section 5.6.1.1). An hour or more is never too brief (RFC 3261 section 10.3 step 7).
    let leastForPush: UInt32

    init(_ settings: RegistrarSettings) {
        standard = Self.seconds(settings.defaultExpiry)
        least = max(1, Self.seconds(settings.minExpiry))
        most = Self.seconds(settings.maxExpiry)
        leastForPush = max(least, min(Self.seconds(settings.refreshPushLead), 3600))
    }

    static func seconds(_ duration: Duration) -> UInt32 { UInt32(clamping: duration.components.seconds) }
}

extension Instant {
    /// Adds seconds without the 128-bit arithmetic of `Duration`, because every REGISTER needs this.
    func adding(seconds: UInt32) -> Instant {
        let (sum, overflow) = nanoseconds.addingReportingOverflow(Int64(seconds) * 1_000_000_000)
        return overflow ? .distantFuture : Instant(nanoseconds: sum)
    }

    /// Whole seconds until a later instant, rounded up.
    func seconds(until later: Instant) -> Int64 {
        let difference = later.nanoseconds.subtractingReportingOverflow(nanoseconds).partialValue
        return difference <= 0 ? 0 : (difference - 1) / 1_000_000_000 + 1
    }
}
