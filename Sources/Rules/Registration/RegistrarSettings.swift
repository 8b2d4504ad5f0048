package import PushDelivery
package import Settings
import Timekeeping

/// The settings for decisions about REGISTERs.
package struct RegistrarSettings: SettingsGroup, Equatable {
    /// The response to a REGISTER with a push service that the daemon does not serve (RFC 8599 section 5.6.1, rule P2).
    ///
    /// ECSS-10 does not define the response to an unsupported push service. RFC 8599 allows 555 if no other proxy on
    /// the path supports the push service. A 555 tells the app that the daemon will not wake the phone.
    package enum UnsupportedPush: String, Hashable, Sendable, CaseIterable {
        /// The daemon refuses the REGISTER with 555.
        case reject = "reject-555"
        /// The contact is accepted without pushes, and expires like a contact without push parameters.
        case ordinary
    }

    /// A part of a Contact that names the device independently of its token and its address (reading A5).
    package enum LabelSource: String, Hashable, Sendable, CaseIterable {
        /// The Contact parameter `label` names the device.
        case label
        /// The Contact parameter `+sip.instance` names the device.
        case instance
    }

    package var defaultExpiry: Duration = .seconds(3600)
    package var minExpiry: Duration = .seconds(60)
    package var maxExpiry: Duration = .seconds(86400)
    package var maxContacts = 12
    /// The maximum number of contacts in one REGISTER; a REGISTER with more contacts gets 400.
    package var maxContactsPerRequest = 20
    /// The parts of a Contact that name the device, in the order in which they are tried.
    package var labelSources: [LabelSource] = [.label, .instance]
    package var unsupportedPush = UnsupportedPush.reject
    /// The value of `+sip.pnsreg`. If it is zero, responses have no `+sip.pnsreg`.
    package var announcedRefresh: Duration = .seconds(130)
    package var announcesPURR = false
    /// The time between a refresh push and the expiry of the phone's contact; zero for no refresh push.
    package var refreshPushLead: Duration = .zero
    /// The maximum number of refresh pushes before one expiry of a contact.
    package var refreshPushTries = 3
    /// The maximum number of refresh pushes of one push app in a second.
    package var refreshPushRate = 500
    /// The value of the header field Flow-Timer; zero if the daemon does not send this field.
    package var flowTimer: Duration = .zero
    /// The push tokens that registrations accept, computed from the push settings. This property is no key of the
    /// settings group `registrar`.
    package var push = PushAcceptance()

    package init() {}

    package static let schema: [Setting<RegistrarSettings>] = [
        .duration(
            "default-expires", in: .seconds(60)...maxDuration, \.defaultExpiry,
            "The lifetime of a contact if its REGISTER names no expiry."),
        .duration(
            "min-expires", in: .seconds(1)...(.seconds(3600)), \.minExpiry,
            "The minimum lifetime of a contact. A REGISTER with a shorter `Expires` gets 423. To make phones register less often, raise `min-expires`."
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
            "How the daemon recognises a phone that has a new push token: by the Contact parameter label, or by the "
                + "instance (`+sip.instance`). The new contact replaces the contact with the same label or instance. If the "
                + "Contact has a label and an instance, the first entry of `registrar.label` decides."
        ),
        .choice(
            "unsupported-push", \.unsupportedPush,
            "How the daemon treats a REGISTER whose push service is unknown or switched off, or whose push token fits no app in the settings (docs/Providers.md). With `reject-555`, the REGISTER gets 555, and the header field `Warning` gives the reason. With `ordinary`, the daemon stores the contact, sends it no pushes, and removes it when it expires."
        ),
        .duration(
            "announce-refresh", in: .zero...maxDuration, \.announcedRefresh,
            "Ask phones that can wake up by themselves (`+sip.pnsreg`) to register again at least this long before "
                + "their contact expires. `announce-refresh` must be more than 120 s (RFC 8599). With `0s`, the daemon does not ask phones to register early. "
                + "The daemon keeps expired contacts with push parameters in any case."
        ),
        .duration(
            "refresh-push", in: .zero...maxDuration, \.refreshPushLead,
            "Wake a phone by a silent push if its registration would expire within this time. `refresh-push` must be at least 180s (RFC 8599 section 5.5), and less than `default-expires`. A REGISTER with push parameters and an `Expires` below `refresh-push` gets 423. With `0s`, the daemon sends no pushes for refreshing. Calls wake a phone whose registration has expired even if `refresh-push` is `0s`."
        ),
        .integer(
            "refresh-push-tries", in: 1...3, \.refreshPushTries,
            "The maximum number of refresh pushes before a registration expires. If the phone has not registered, the daemon sends the second push when half of the remaining time is over, and the third push after a further quarter. Apple tolerates three refresh pushes an hour, and other providers twelve, so phones that register often get fewer pushes. With `1`, the daemon sends each refresh push once."
        ),
        .integer(
            "refresh-push-rate", in: 1...100_000, \.refreshPushRate,
            "The maximum number of refresh pushes that the daemon sends in a second for each push app. At most half of them are second and third pushes. The default is five percent of Firebase's quota of 600,000 messages a minute. Raise `refresh-push-rate` if the log reports that refresh pushes are held back, and the provider tolerates more pushes."
        ),
        .bool(
            "announce-purr", \.announcesPURR,
            "Give each phone with push parameters a PURR (Proxy Unique Registration Reference, RFC 8599). The phone writes the PURR into its Contact (`+sip.pnspurr`, `pn-purr`). With a PURR, a request from outside a call reaches the phone that is in the call. Requests inside a call wake the phone even without a PURR. The PURR makes each REGISTER slower."
        ),
        .duration(
            "flow-timer", in: .zero...(.seconds(86_400)), \.flowTimer,
            "How often a phone with several flows (RFC 5626) must send something on each flow. The daemon writes the value of `flow-timer` into the header field `Flow-Timer` of the 200 to the phone's REGISTER. The daemon closes a connection that is silent for ten seconds longer than `flow-timer`. The daemon tries a silent UDP flow after the phone's other flows. If the silent flow is the phone's only flow, the daemon wakes the phone by a push. With `0s`, the daemon sends no `Flow-Timer`, and keeps silent connections."
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
    /// The value of the header field Flow-Timer in seconds; `nil` for no Flow-Timer.
    var flowTimerSeconds: UInt32? { flowTimer == .zero ? nil : ContactLifetime.seconds(flowTimer) }

    /// The value of `+sip.pnsreg` in seconds. If the value is `nil`, responses have no `+sip.pnsreg`.
    var refreshSeconds: UInt32? { announcedRefresh == .zero ? nil : ContactLifetime.seconds(announcedRefresh) }
}
