/// The names of all fields that log lines can have.
package enum LogKey: String, CaseIterable, Sendable {
    // Fields about who acts, and where.
    case aor
    case user
    case device
    case source
    case listener
    case target
    case transport

    // Fields about the call.
    case callID = "call-id"
    case method
    case caller
    case realm

    // Fields about the result of a request or call.
    case code
    case status
    case outcome
    case reason
    case advice
    case error
    case attempt
    case duration
    case count
    case suppressed
    case bytes

    // Fields about the HTTP API.
    case apiKey = "api-key"
    case route
    case object

    // Fields about pushes.
    case provider
    case topic
    case token
    case payload

    // Fields about the program itself.
    case version
    case path
    case date
    case setting
}
