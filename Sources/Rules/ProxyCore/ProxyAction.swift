package import AccessLimits
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
    /// Write the bytes to a flow, and report a failure to ``ProxyEngine/sendFailed(on:now:)``. If the connection number
    /// of a stream flow is 0, the shell may use any connection to the remote endpoint, or opens one.
    case send([UInt8], on: Flow)
    /// Note that the peer of this connection has proved its identity (T17). `account` stands for the user whose
    /// password the peer has shown. If `account` is `nil`, only an accepted REGISTER proves the peer. The engine may
    /// report one connection several times.
    case flowProved(Flow, account: Int?)
    /// Note that requests to the endpoint may use this connection, which the peer has opened (RFC 5923).
    case reuse(Flow, as: Endpoint, ServerNumber)
    /// Close the connection if the peer sends nothing for a longer time than this. The peer was asked to send
    /// keep-alives.
    case expectLife(Flow, every: Duration)
    /// Commit these changes in one transaction, then call ``ProxyEngine/committed(_:succeeded:now:)`` with the ticket.
    case commit([EngineChange], CommitTicket)
    /// Write this change to the journal before any later action. A journaled change survives the end of the process,
    /// but perhaps not a power failure.
    case journal(CallChange)
    /// Write these changes to the store soon. The engine does not wait for the write. If the process ends before the
    /// write, the changes are lost.
    case record([EngineChange])
    /// Write these refreshed bindings when the store is idle. If this write is lost, no harm is done.
    case refresh([StoredBinding])
    /// Write these records into the timeline, unless too many records already wait to be written.
    case trace([TimelineChange])
    /// Send the result to the HTTP client that reported a device or asked to remove devices.
    case reported(ReportTicket, ReportResult)
    /// Send a push to its provider. Report the result to ``ProxyEngine/pushHappened(_:now:)``.
    case push(PushDispatcher.Transmission)
    /// Make a credential for a provider. Report the credential to ``ProxyEngine/pushHappened(_:now:)``.
    case makeCredential(PushCredentials.Order)
    /// Report whether a push can be sent to the token that a client wanted to check.
    case dryRunEnded(DryRunTicket, canBePushed: Bool)
    /// Report the result of a test push to the operator.
    indirect case testPushEnded(TestPushTicket, TimelineRecord)
    /// Ask a source for a user. Report the answer to ``ProxyEngine/userAnswered(_:_:now:)``.
    indirect case askUser(UserQuestion)
    /// The login that waits for a user may be judged now.
    case userSettled(LoginTicket)
    /// Look up the addresses of a host name. Report the addresses to ``ProxyEngine/resolved(_:to:now:)``.
    case resolve(NextHop, ResolutionTicket)
}

/// A change that the engine wants in the store: a row to write or to delete.
package enum EngineChange: Sendable {
    case binding(BindingChange)
    case bucket(StoredBucketChange)
    indirect case message(MessageChange)
    /// Record in the store that a push token is dead. Only application servers read this row; the daemon never reads it back.
    case deadToken(DeadToken)
    /// Write the new expiry of a dialog, which a request inside the dialog has moved. The number is a hash of the
    /// dialog token.
    case dialogRenewed(UInt64, until: UnixTime)
}
