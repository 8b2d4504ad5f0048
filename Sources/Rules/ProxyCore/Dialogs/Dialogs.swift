import SIPGrammar

/// State of dialogs that their tokens do not carry.
package struct Dialogs {
    /// Marks this run of the program in dialog tokens, because connection numbers are not valid in other runs.
    let run: UInt32
    /// When renewed dialogs end.
    package internal(set) var renewals = DialogRenewals()
    var provedPlaces = ProvedPlaces()
    var devices = DialogDevices()

    init(run: UInt32) { self.run = run }
}
