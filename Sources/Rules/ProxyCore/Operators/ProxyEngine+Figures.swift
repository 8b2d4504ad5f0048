package import PushDelivery
import Registration
import SIPGrammar
import SIPTransactions
package import Telemetry

/// The engine's counters and table sizes, for operators.
extension ProxyEngine {
    /// The counters, and the current sizes of the tables. Reading them walks through no table.
    package var figures: CounterSet {
        var figures = counters
        figures.set(.bindings, to: registrar.bindings.count)
        figures.set(.pushBindings, to: registrar.bindings.pushCount)
        figures.set(.addresses, to: registrar.bindings.addressCount)
        figures.set(.heldCalls, to: calls.offered)
        figures.set(.overload, to: Int(admission.pressure / Double(Admission.Kind.allCases.count) * 100))
        figures.set(.transactions, to: transactions.serverCount + transactions.clientCount)
        figures.set(.forks, to: calls.count)
        figures.set(.waitingMessages, to: messages.count)
        figures.set(.bucketEntries, to: ledger.buckets.entryCount)
        figures.count(.timelineDropped, by: ledger.timeline.omitted)
        figures.merge(ledger.dispatcher.figures)
        return figures
    }

    /// A report of each app's pushes, in the order of the settings.
    package var pushReports: [(app: PushApp, report: PushAppReport)] { ledger.dispatcher.reports }

    func countNew(_ facts: [RegistrationFact]) {
        for fact in facts {
            if case .added = fact { counters.count(.bindingCreated) }
        }
    }

    func count(_ verdict: DigestAuthenticator.Verdict) {
        switch verdict {
        case .authenticated: counters.count(.credentialsAccepted)
        case .challenge: counters.count(.challengeSent)
        case .forbidden, .limited: counters.count(.credentialsRefused)
        }
    }
}

extension Counter {
    init(_ method: Method) {
        switch method {
        case .register: self = .requestRegister
        case .invite: self = .requestInvite
        case .ack: self = .requestAck
        case .cancel: self = .requestCancel
        case .bye: self = .requestBye
        case .options: self = .requestOptions
        case .message: self = .requestMessage
        default: self = .requestOther
        }
    }

    init(_ status: Status) {
        switch status.statusClass {
        case 1: self = .response1xx
        case 2: self = .response2xx
        case 3: self = .response3xx
        case 4: self = .response4xx
        case 5: self = .response5xx
        default: self = .response6xx
        }
    }

    init(_ reason: UnusableMessage.Reason) {
        switch reason {
        case .tooManyHeaders, .headTooLarge, .uriTooLong, .bodyTooLarge: self = .rejectedTooLarge
        case .notSIP, .startLine, .version, .headerSyntax, .missing, .repeated, .methodMismatch, .contentLength,
            .forbiddenByte:
            self = .rejectedMalformed
        }
    }
}
