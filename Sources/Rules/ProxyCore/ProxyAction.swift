package import Addressing
package import Calling
package import Messaging
package import ProxyPolicy
package import PushDelivery
package import PushPlanning
package import Registration
package import Routing
package import Timekeeping

/// An order of the engine to the shell. The shell performs the actions in the order in which the engine returned them.
package enum ProxyAction: Sendable {
    /// Write bytes to a flow. If `connection` is 0 on a stream flow, any connection to that remote will do, and the
    /// shell opens one if none exists. The shell reports a failure to ``ProxyEngine/sendFailed(on:now:)``.
    case send([UInt8], on: Flow)
    /// The peer of this connection is proved (T17), perhaps not for the first time. `account` is the user whose
    /// password the peer has shown. Without an account, an accepted REGISTER is the only proof.
    case flowProved(Flow, account: Int?)
    /// Requests to that endpoint may use this connection, which the peer has opened (RFC 5923).
    case reuse(Flow, as: Endpoint, ServerNumber)
    /// The peer was asked to send something on its connection at least this often.
    case expectLife(Flow, every: Duration)
    /// Commit these changes in one transaction, then call ``ProxyEngine/committed(_:succeeded:now:)`` with the ticket.
    case commit([EngineChange], CommitTicket)
    /// Write this change before any other action of the same batch. The change then survives the end of the process,
    /// but perhaps not a power failure.
    case journal(CallChange)
    /// Write these changes soon. Nobody waits for them. They are lost only if the process ends before.
    case record([EngineChange])
    /// Write these rows of bindings when the store is idle. Their loss does no harm.
    case refresh([StoredBinding])
    /// Write these records into the timeline, unless too many others wait.
    case trace([TimelineChange])
    /// Report the result to the HTTP client that reported a device or its removal.
    case reported(ReportTicket, ReportResult)
    /// Send a push to its provider. Report the result to ``ProxyEngine/pushHappened(_:now:)``.
    case push(PushDispatcher.Transmission)
    /// Make a credential for a provider. Report the credential to ``ProxyEngine/pushHappened(_:now:)``.
    case makeCredential(PushCredentials.Order)
    /// Report to the client of a dry run whether its token can be pushed.
    case dryRunEnded(DryRunTicket, canBePushed: Bool)
    /// Report to the operator what became of a test push.
    indirect case testPushEnded(TestPushTicket, TimelineRecord)
    /// Look a host name up. Report the addresses to ``ProxyEngine/resolved(_:to:now:)``.
    case resolve(NextHop, ResolutionTicket)
}

/// A row that the store must write or delete for the engine.
package enum EngineChange: Sendable {
    case binding(BindingChange)
    case bucket(StoredBucketChange)
    indirect case message(MessageChange)
    /// A dead token. The daemon never reads this row back; application servers do.
    case deadToken(DeadToken)
    /// Requests inside this dialog have moved its expiry to the given time.
    case dialogRenewed(UInt64, until: UnixTime)
}
