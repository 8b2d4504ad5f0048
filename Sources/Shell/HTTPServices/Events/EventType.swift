import Calling
import ProxyCore
import PushDelivery
import ServiceEvents

/// The types of events, by the names in the setting `events.types`.
package enum EventType: String, Hashable, Sendable, CaseIterable {
    case callHeld = "call.held"
    case callWoken = "call.woken"
    case callAnswered = "call.answered"
    case callMissed = "call.missed"
    case callRefused = "call.refused"
    case callForwarded = "call.forwarded"
    case callDismissed = "call.dismissed"
    case deviceRegistered = "device.registered"
    case deviceRemoved = "device.removed"
    case credentialsRefused = "push.credentials-refused"
    case credentialsAccepted = "push.credentials-accepted"
    case breakerOpened = "push.breaker-opened"
    case breakerClosed = "push.breaker-closed"
    /// Events were lost. The setting `events.types` cannot leave out this type.
    case eventsDropped = "events.dropped"

    init(of event: ServiceEvent) {
        switch event {
        case .callHeld: self = .callHeld
        case .callWoken: self = .callWoken
        case .callEnded(let report, _): self = Self.end(of: report)
        case .deviceRegistered: self = .deviceRegistered
        case .deviceRemoved: self = .deviceRemoved
        case .push(.credentialsRefused, _): self = .credentialsRefused
        case .push(.credentialsAccepted, _): self = .credentialsAccepted
        case .push(.breakerOpened, _): self = .breakerOpened
        case .push(.breakerClosed, _): self = .breakerClosed
        }
    }

    private static func end(of report: EndedCallReport) -> EventType {
        switch report.code.end {
        case .answered, .answeredElsewhere: .callAnswered
        case .callerGaveUp, .noAnswer, .unreachable, .timeOver, .pushFailed, .phonesGone, .notDisturbed: .callMissed
        case .refused, .denied: .callRefused
        case .forwarded, .redirected: .callForwarded
        case .endedByOperator: .callDismissed
        }
    }
}
