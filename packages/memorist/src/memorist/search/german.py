"""German stop words.

A search ignores them in German questions; they are indexed like all other words.
"""

from __future__ import annotations

_STOP = """
aber alle allem allen aller alles als also am an auch auf aus bei beim bin bis bist bitte da dabei
dafür dagegen damit danach dann daran darauf daraus darin darum darunter darüber das dass davon
davor dazu dein deine deinem deinen deiner deines dem den denn der deren des dessen dich die dies
diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer eines er
erinnere erinnerst erwähnt erzähl erzähle erzählt es etwas euch euer eure eurem euren eurer für
gefragt gegen gesagt gewesen hab habe haben habt hast hat hatte hatten hattest hier hin ich ihm ihn
ihnen ihr ihre ihrem ihren ihrer ihres im in ins ist ja jede jedem jeden jeder jedes jene kann
kannst kein keine keinem keinen keiner können könnt könnte man mein meine meinem meinen meiner
meines mich mir mit muss musste nach nein nicht noch nun nur ob oder ohne sag sage sagte schon sehr
sein seine seinem seinen seiner seines seit sich sie sind so soll sollen sollte um und uns unser
unsere unserem unseren unserer unter vom von vor wann war waren warst warum was weil welche welchem
welchen welcher welches wem wen wenn wer werde werden weshalb wessen wie wieder wieso will wir wird
wirst wo wobei wodurch wofür wogegen woher wohin womit wonach woran worauf woraus worin worum
worüber wovon wovor wozu wurde wurden wurdest würde würden zu zum zur zwischen über
"""
STOP = frozenset(_STOP.split())

_ALSO_ENGLISH = "also bin den der des die dies hat ins man nun war"
ALSO_ENGLISH = frozenset(_ALSO_ENGLISH.split())
"""German stop words that are also English words, or parts of names in English questions."""
