package import PushDelivery
package import Settings
import Timekeeping

/// How REGISTER requests are judged.
package struct RegistrarSettings: SettingsGroup, Equatable {
    /// What happens to a REGISTER whose push service this proxy does not serve (RFC 8599 section 5.6.1, rule P2).
    ///
    /// ECSS-10 does not say. RFC 8599 allows 555 to whoever knows that nobody further on serves it: the app then knows that
    /// it will not be woken.
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

    package var defaultExpiry: Duration = .seconds(3600)
    package var minExpiry: Duration = .seconds(60)
    package var maxExpiry: Duration = .seconds(86400)
    package var maxContacts = 12
    /// Contacts of one REGISTER; one more gets 400.
    package var maxContactsPerRequest = 20
    /// What may name a device, in the order in which it is tried.
    package var labelSources: [LabelSource] = [.label, .instance]
    package var unsupportedPush = UnsupportedPush.reject
    /// Zero: none is announced.
    package var announcedRefresh: Duration = .seconds(130)
    package var announcesPURR = false
    /// How long before its end a phone is woken to refresh its contact. Zero: never.
    package var refreshPushLead: Duration = .zero
    /// Zero: none is announced.
    package var flowTimer: Duration = .zero
    /// Made from the settings of the push providers; no key of this group.
    package var push = PushAcceptance()

    package init() {}

    package static let schema: [Setting<RegistrarSettings>] = [
        .duration(
            "default-expires", in: .seconds(60)...maxDuration, \.defaultExpiry,
            "Lifetime of a contact whose phone asks for none."),
        .duration(
            "min-expires", in: .seconds(1)...(.seconds(3600)), \.minExpiry,
            "A REGISTER for a shorter lifetime is answered 423."),
        .duration(
            "max-expires", in: .seconds(60)...maxDuration, \.maxExpiry,
            "The longest lifetime granted. Contacts with push parameters stay when it is over, until their phone signs "
                + "out."),
        .integer(
            "max-contacts", in: 1...100, \.maxContacts,
            "Contacts that one user may have; a REGISTER for one more is answered 403."),
        .list(
            "label", of: .choice, \.labelSources,
            "What names a phone that comes back with a new push token: the Contact parameter label, or its instance "
                + "(+sip.instance). The new contact then replaces the old one. The first that a Contact has is used."),
        .choice(
            "unsupported-push", \.unsupportedPush,
            "What to do with a contact whose push service is unknown or switched off, or whose token cannot be one of our "
                + "apps' (docs/Providers.md): answer 555 with a Warning that says what is wrong, or accept it as an ordinary "
                + "contact that expires."),
        .duration(
            "announce-refresh", in: .zero...maxDuration, \.announcedRefresh,
            "Ask phones that can wake by themselves (+sip.pnsreg) to register again at least this long before their contact "
                + "would expire; more than 120 s (RFC 8599). 0s: do not ask, since contacts with push parameters stay "
                + "without it."),
        .duration(
            "refresh-push", in: .zero...maxDuration, \.refreshPushLead,
            "Wake a phone by a silent push when its registration ends within this time and it has not refreshed it: at "
                + "least 180s (RFC 8599 section 5.5), and less than default-expires. A phone with push parameters that asks for "
                + "a shorter time is answered 423. 0s: never, since contacts with push parameters stay when their time is "
                + "over, and calls wake them all the same."),
        .bool(
            "announce-purr", \.announcesPURR,
            "Give phones with push parameters a reference to write into their Contacts (+sip.pnspurr, pn-purr; RFC 8599), which "
                + "leads requests from outside of a call to the phone that is in it. Inside calls phones are woken without "
                + "it. It makes a REGISTER cost more."),
        .duration(
            "flow-timer", in: .zero...(.seconds(86_400)), \.flowTimer,
            "Tell phones with several flows (RFC 5626) to send something on each at least this often (Flow-Timer). A "
                + "connection on which nothing has come for ten seconds more is closed; over UDP the flow is tried last then. "
                + "When none is left, the phone is woken by a push. 0s: do not tell them, and wait for the connection to "
                + "end."),
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
    /// The value of Flow-Timer; `nil` where none is announced.
    var flowTimerSeconds: UInt32? { flowTimer == .zero ? nil : ExpiryLimits.seconds(flowTimer) }

    /// The value of `+sip.pnsreg`; `nil` where none is announced.
    var refreshSeconds: UInt32? { announcedRefresh == .zero ? nil : ExpiryLimits.seconds(announcedRefresh) }
}

/// The settings about time in the whole seconds that SIP counts in.
struct ExpiryLimits: Sendable {
    let standard, least, most: UInt32
    /// The least for a contact with push parameters: its end must not come before its refresh is asked for (RFC 8599 section
    /// 5.6.1.1). An hour and more is never too brief (RFC 3261 section 10.3 step 7).
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
    /// Without the 128-bit arithmetic of `Duration`: for every REGISTER.
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
