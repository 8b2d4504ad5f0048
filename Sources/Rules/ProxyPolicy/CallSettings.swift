package import Settings
import SIPTransactions

/// Settings for how calls reach devices, and how long calls can last.
package struct CallSettings: SettingsGroup {
    /// The order in which the devices of a user ring.
    package enum RingOrder: String, Hashable, Sendable, CaseIterable, Codable {
        /// All devices ring at the same time.
        case parallel
        /// Devices with a higher `q` ring first, and continue to ring when other devices begin.
        case q
        /// Devices with a higher `q` ring first, and stop ringing when the next devices begin.
        case inTurn = "q-in-turn"
    }

    /// The maximum time that an INVITE waits for a sleeping device (A12).
    package var ringTimeout: Duration = .seconds(30)
    /// The maximum ringing time of a phone: Timer C, which is more than three minutes (RFC 3261 section 16.6 item 11).
    package var ringLimit = TransactionTimers().ringLimit
    /// How long after its REGISTER a phone gets an INVITE without a push; with zero, each phone with a push token gets
    /// a push (A9).
    package var skipPushWithin: Duration = .zero
    package var ringLiveFlowWithin: Duration = .zero
    /// Whether a phone that gets a push also gets an OPTIONS on its connection; an awake phone answers the OPTIONS.
    package var asksConnections = true
    package var asksDatagrams = false
    /// Whether a push wakes a phone for a request inside a dialog.
    package var wakesInDialogs = true
    /// How long a dialog token in the Record-Route is valid for requests inside the dialog (T20.5).
    package var dialogLifetime: Duration = .seconds(43_200)
    package var callerIDFormat = CallerIDFormat.ecss10
    /// The maximum number of pushes per minute for calls to one phone; zero for no limit (T11).
    package var pushesPerDevice = 20
    package var pushesPerCaller = 60
    package var noWake = NoWakeSettings()
    package var ringOrder = RingOrder.parallel
    /// The time between the beginnings of two groups of devices, for the orders by `q`.
    package var groupTime: Duration = .seconds(15)

    package init() {}

    package static let schema: [Setting<CallSettings>] = [
        .duration(
            "ring-timeout", in: .seconds(1) ... .seconds(180), \.ringTimeout,
            "How long an INVITE waits for a sleeping phone to register before the caller gets 480. If the INVITE has a shorter time in `Expires`, the call waits only for this shorter time."
        ),
        .duration(
            "ring-limit", in: .seconds(181) ... .seconds(3600), \.ringLimit,
            "How long a phone may ring before the daemon ends the call (Timer C of RFC 3261, which must be longer than three minutes)."
        ),
        .duration(
            "skip-push-within", in: .zero ... .seconds(3600), \.skipPushWithin,
            "A phone that registered at most this long before a call gets the INVITE immediately, without a push. With `0s`, the daemon always sends a push, because the app may sleep although it has just registered."
        ),
        .duration(
            "ring-live-flow-within", in: .zero ... .seconds(3600), \.ringLiveFlowWithin,
            "If a phone sent anything on its flow, even a keep-alive, at most this long before a call, the phone gets the INVITE and a push at the same time. If the phone does not answer the INVITE for three seconds, the daemon treats the phone as asleep and holds the call. With `0s`, the daemon always sends a push, and holds the INVITE until the phone registers or sends something on its flow."
        ),
        .bool(
            "ask-connections", \.asksConnections,
            "If the TCP, TLS or WebSocket connection of the phone is open, send the phone an OPTIONS at the same time as the push. A phone that answers the OPTIONS is awake and gets the INVITE immediately. If the phone does not answer the OPTIONS, the daemon holds the INVITE. Phones whose connections come through trusted peers or edges get no OPTIONS."
        ),
        .bool(
            "ask-udp", \.asksDatagrams,
            "Send the OPTIONS of `ask-connections` also to phones on UDP. The setting `ask-udp` has an effect only if `ask-connections` is `true`. With `ask-udp`, a sleeping phone gets up to eleven datagrams for each call, and each datagram can wake the phone's radio."
        ),
        .duration(
            "dialog-lifetime", in: .seconds(1) ... .seconds(2_592_000), \.dialogLifetime,
            "How long after the start of a call the daemon accepts requests inside the call. A request inside the call restarts `dialog-lifetime` if more than half of `dialog-lifetime` is over. Set `dialog-lifetime` to more than twice the session timer of your phones."
        ),
        .bool(
            "wake-in-dialogs", \.wakesInDialogs,
            "Wake a phone by a silent push for a request inside an active call (BYE, re-INVITE, REFER ...), if the phone's connection is closed or the phone does not answer for three seconds. The daemon holds the request until the phone registers."
        ),
        .choice(
            "caller-id-format", \.callerIDFormat,
            "The form of the caller's address in pushes. With `ecss10`, pushes for calls have the caller's URI, and lists of missed calls have the user part of the caller's URI. With `uri`, pushes for calls and lists of missed calls have the caller's whole URI. With `user`, pushes for calls and lists of missed calls have only the user part of the caller's URI."
        ),
        .integer(
            "pushes-per-device", in: 0...10_000, \.pushesPerDevice,
            "The maximum number of pushes for calls to one phone in a minute. The daemon holds a call without a push if a push would exceed the limit. The value `0` means that there is no limit."
        ),
        .integer(
            "pushes-per-caller", in: 0...1_000_000, \.pushesPerCaller,
            "The maximum number of pushes in a minute for all calls of one caller. `pushes-per-caller` does not limit trusted peers, such as the PBX. The value `0` means that there is no limit."
        ),
        .choice(
            "ring-order", \.ringOrder,
            "The order in which the devices of a user ring. With `parallel`, all devices ring at the same time. With `q`, devices whose Contact has a higher parameter `q` (RFC 3261) ring first, and other devices begin after `group-time`. The first devices continue to ring. With `q-in-turn`, the first devices get a CANCEL when other devices begin. With `q` and `q-in-turn`, the next devices ring immediately when all earlier devices have failed. Devices with equal `q` ring together. The rules of a user (`sippushd user rules`) take precedence over `ring-order`."
        ),
        .duration(
            "group-time", in: .milliseconds(100) ... .seconds(180), \.groupTime,
            "How long devices with a higher `q` ring before devices with the next lower `q` begin. `group-time` has an effect only if `ring-order` is `q` or `q-in-turn`. A call waits for sleeping phones for `ring-timeout` after the last devices have begun."
        ),
        .group("no-wake", \.noWake, "How the daemon treats calls for which no phone wakes (docs/pbx/Nobody-wakes.md)."),
    ]
}
