package import Addressing
import Bytes
package import Collections
package import PushDelivery
package import SIPGrammar
import Timekeeping

/// What an acceptable REGISTER is going to change, before anything is changed.
///
/// ``RegisterProcessor/plan(_:for:on:in:now:)`` makes it. If ``persist`` has something, ``BindingTable/begin(_:)``
/// follows, then the store writes it. Then comes ``BindingTable/apply(_:)``, or ``BindingTable/cancel(_:)`` when the
/// store failed, and at last the 200 with its ``announcement``. Each AOR has one plan at a time.
///
/// A class because it goes through many hands, and a copy of the value would retain a dozen arrays.
package final class RegisterPlan {
    package let aor: AddressOfRecord
    /// What must be in the store before the 200 is sent. It is empty when nothing changed that a restart could lose: a
    /// push contact that was only refreshed comes back from its old row just as well.
    package internal(set) var persist: [BindingChange] = []
    /// The devices of which only expiry, CSeq and Call-ID changed. Their rows, which ``BindingTable/stored(_:now:)``
    /// gives, may be written later.
    package internal(set) var bookkeeping = ShortList<DeviceID>()
    /// The devices that registered. After the 200 their held calls go out, and their missed calls are reported.
    package internal(set) var refreshed = ShortList<DeviceID>()
    /// The devices that this REGISTER removes.
    package internal(set) var removed: [DeviceID] = []
    /// What the log says of it.
    package internal(set) var facts: [RegistrationFact] = []

    package internal(set) var announcement = RegisterAnnouncement()
    /// An ordinary contact that is refreshed, and nothing else.
    var refresh: ContactRefresh?
    var installs: [Install] = []

    /// A record to be made or replaced.
    struct Install: Sendable {
        let id: DeviceID
        var content: Binding.Content
    }

    init(aor: AddressOfRecord) { self.aor = aor }
}

/// What happened to a device, for the log.
package enum RegistrationFact: Hashable, Sendable, CustomStringConvertible {
    case added(DeviceID, isPush: Bool)
    /// The same device came with a new token (rule R8b).
    case tokenReplaced(DeviceID)
    /// A contact was removed because another contact of the same device took its place (rule R8b).
    case superseded(DeviceID, by: DeviceID)
    case unregistered(DeviceID)
    /// A device registered as an ordinary contact, although it asked for pushes.
    case pushNotUsed(DeviceID, PushNotUsed)
    /// `pn-param` and `pn-params` were both there and differ (reading A1).
    case conflictingParams(DeviceID)
    /// A sign-out named a token that nobody has registered, so nothing was removed (reading A7).
    case unknownSignOut
    /// The REGISTER has the same Call-ID and CSeq as before and was answered again.
    case retransmission

    /// As log lines say it.
    package var description: String {
        switch self {
        case .added(let device, let isPush): "added \(device.name) \(isPush ? "with" : "without") push"
        case .tokenReplaced(let device): "new token of \(device.name)"
        case .superseded(let device, let other): "\(device.name) replaced by \(other.name)"
        case .unregistered(let device): "\(device.name) signed out"
        case .pushNotUsed(let device, .unsupported): "added \(device.name) without push: its provider is not served"
        case .pushNotUsed(let device, .invalid): "added \(device.name) without push: its push parameters are not valid"
        case .pushNotUsed(let device, .pushedElsewhere): "added \(device.name) without push: another proxy pushes"
        case .conflictingParams(let device): "pn-param and pn-params of \(device.name) differ"
        case .unknownSignOut: "signed out with a token that nobody has registered"
        case .retransmission: "a copy of the last REGISTER"
        }
    }

    package enum PushNotUsed: Hashable, Sendable {
        case unsupported(TokenProblem)
        case invalid(PushParameters.Invalid)
        /// Another proxy nearer to the device pushes (rule P1).
        case pushedElsewhere
    }
}

/// The verdict on a REGISTER.
package enum RegisterDecision {
    case accepted(RegisterPlan)
    /// A push contact is refreshed, and nothing has to be written first.
    case refreshed(ContactRefresh)
    /// Nothing changes, and the answer has this status and these further fields. Where a token is the cause, the problem
    /// with it is named.
    case rejected(Status, [AddedField], because: TokenProblem? = nil)
}

extension BindingTable {
    /// Protects the bindings that the plan names while the store writes it, and takes its new ids.
    package mutating func begin(_ plan: RegisterPlan) { mark(plan, busy: true) }

    /// Gives up a plan that the store could not write. The ids it had taken stay unused.
    package mutating func cancel(_ plan: RegisterPlan) { mark(plan, busy: false) }

    /// Carries the plan out.
    package mutating func apply(_ plan: RegisterPlan) {
        if let refresh = plan.refresh {
            apply(refresh)
            return
        }
        for id in plan.removed {
            if let slot = slot(of: id) { remove(slot: slot) }
        }
        for install in plan.installs {
            guard let record = makeRecord(install.id, install.content) else { continue }
            if let slot = slot(of: install.id) {
                replace(slot: slot, with: record)
            } else {
                insert(record, for: plan.aor)
            }
        }
    }

    private mutating func mark(_ plan: RegisterPlan, busy: Bool) {
        for id in plan.removed + plan.installs.map(\.id) + [plan.refresh?.id].compactMap({ $0 }) {
            if let slot = slot(of: id) {
                if busy { self[slot].marks.insert(.isBusy) } else { self[slot].marks.remove(.isBusy) }
            } else if id >= nextID {
                nextID = DeviceID(rawValue: id.rawValue &+ 1)
            }
        }
    }
}
