"""How often does a 95% interval hold the true value, and how often are equal runs called different?

populations     where tables and pairs of runs come from, friendly and hostile
first_edition   the rules that the present ones replaced, measured on the same tables
peers           what others would say of the same pairs
study           what is drawn, counted and added up
page            the study as Markdown
"""
