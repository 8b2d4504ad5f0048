package import Addressing
package import Bytes
package import Calling
package import PushDelivery
package import Registration
package import Timekeeping

/// A fact about a call, a device or a push provider for the operator's receiver of events. No event contains a push
/// token.
package enum ServiceEvent: Sendable {
    /// A call waits for phones that sleep.
    indirect case callHeld(EventCall, EventWait)
    /// A phone for which a call waited is awake, and gets the INVITE.
    indirect case callWoken(EventCall, device: DeviceID, after: Duration)
    /// A call has got its final response. The caller is `nil` if the daemon cannot read the INVITE any more.
    indirect case callEnded(EndedCallReport, caller: ByteString?)
    /// A device has registered for the first time, or an app server has reported the device.
    indirect case deviceRegistered(DeviceID, of: AddressOfRecord, isPush: Bool, at: UnixTime)
    indirect case deviceRemoved(DeviceID, of: AddressOfRecord, DeviceRemoval, at: UnixTime)
    indirect case push(PushAppChange, at: UnixTime)
}

/// The call of an event.
package struct EventCall: Sendable {
    package let ref: CallRef
    package let callID: ByteString
    package let aor: AddressOfRecord
    /// The caller's URI or user name, as in lists of missed calls; `nil` if the daemon cannot read the INVITE any more.
    package let caller: ByteString?
    package let date: UnixTime

    package init(ref: CallRef, callID: ByteString, aor: AddressOfRecord, caller: ByteString?, date: UnixTime) {
        self.ref = ref
        self.callID = callID
        self.aor = aor
        self.caller = caller
        self.date = date
    }

    package init(_ userCall: UserCall, _ caller: ByteString?, at now: Moment) {
        self.init(
            ref: userCall.ref, callID: userCall.key.callID, aor: userCall.aor, caller: caller?.compacted(),
            date: now.date)
    }
}

/// The phones for which a call waits.
package struct EventWait: Sendable {
    package let devices: [DeviceID]
    package let until: UnixTime
    /// Whether the call waits again, because a phone that had the INVITE was lost.
    package let isAgain: Bool

    package init(devices: [DeviceID], until: UnixTime, isAgain: Bool) {
        self.devices = devices
        self.until = until
        self.isAgain = isAgain
    }
}

/// Why a device was removed from its user.
package enum DeviceRemoval: Hashable, Sendable {
    /// The device signed out by a REGISTER.
    case signedOut
    /// Another device of the user replaced the device: it has the same label, push token or contact.
    case replaced(by: DeviceID)
    /// An operator or an app server removed the device.
    case ordered
    /// The registration of a device without a push token has expired.
    case expired
    /// The push provider said that the push token is dead.
    case tokenDead
    /// An operator switched the device's push provider off.
    case providerOff
}
